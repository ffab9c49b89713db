// `millrace release UNIT…`: a person releases held units, and the command loads them, or asks for them again, at once.
import type { Release } from '../ledger/release.ts'
import { emptySummary } from '../ledger/runs.ts'
import { type ReleaseResult, releaseUnits } from '../run/release-units.ts'
import type { Runtime } from '../run/runtime.ts'
import { linesOf, type UnitLine } from '../web/reads/unit-lines.ts'
import { tellAfter } from './after-run.ts'
import { wholeNumber } from './command-options.ts'
import { withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { exitCodeOf, printSummary, summaryEvent } from './summary.ts'

/** Exit code 1 where one of them was not held, needs approval, or is not loaded in the end. */
export const handle: Handler = async (invocation) => {
  const ids = invocation.args.map((arg) =>
    wholeNumber(arg, (text) => `'${text}' is not a unit's number; \`millrace status\` lists held units.`),
  )
  // The key is asked for only where the service must be: a held answer loads without.
  return withRuntime(invocation, { callsService: false, usesLanding: true, pipelines: [] }, async (runtime, progress) => {
    const result = await releaseUnits(runtime, ids, { by: 'command line', signal: invocation.signal })
    if (result.run !== null) await tellAfter(runtime, result.run)
    progress.stop()
    return print(invocation, runtime, result)
  })
}

const print = async ({ output }: Invocation, runtime: Runtime, { units, run }: ReleaseResult): Promise<number> => {
  const idsThat = (...kinds: readonly Release['kind'][]): number[] =>
    [...units].filter(([, kind]) => kinds.includes(kind)).map(([unitId]) => unitId)
  const [released, notHeld, needApproval] = [idsThat('released', 'joined'), idsThat('not held'), idsThat('needs approval')]
  const lines = await linesOf(runtime.database.kysely, [...units.keys()])
  const extra = { released, not_held: notHeld, needs_approval: needApproval }
  for (const line of lines.filter(({ unit_id }) => released.includes(unit_id))) {
    const { unit_id, unit_key, state, error_code, error_message } = line
    output.event({ event: 'released', unit_id, unit: unit_key, state, code: error_code, message: error_message })
    output.line(wordsOf(line))
  }
  for (const id of notHeld) output.line(`unit ${id} is not held; \`millrace status\` lists held units`)
  for (const { unit_id, pipeline } of lines.filter((line) => needApproval.includes(line.unit_id)))
    output.line(`unit ${unit_id} costs more than usual; \`millrace approve ${pipeline}\` allows it, and what waits with it`)
  if (run === null) output.event({ ...summaryEvent('release', null, emptySummary, 0), ...extra })
  else printSummary(output, 'release', run, extra)
  const code = run === null ? 0 : exitCodeOf(run, false)
  return code === 0 && released.length < units.size ? 1 : code
}

const wordsOf = ({ unit_id, unit_key, state, error_code, error_message }: UnitLine): string => {
  const why = error_message === null ? '' : ` (${error_code ?? 'no code'}): ${error_message}`
  return `unit ${unit_id} released; ${unit_key} is ${state}${state === 'loaded' ? '' : why}`
}
