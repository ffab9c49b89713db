// `millrace replay`: parse and load again from the landing, without a call to the service. `millrace quarantine list|show|retry`: rejected rows, one in full,
// or a replay of their units.
import { counted } from '../core/counted.ts'
import { usageError } from '../core/errors.ts'
import { parseOnly } from '../core/only.ts'
import { inclusiveRange } from '../core/window.ts'
import { listQuarantine, showQuarantine } from '../ledger/quarantine.ts'
import { replayAnswer, replayRange, type ReplayResult, retryQuarantine } from '../run/replay.ts'
import { assertKnownPipelines, byAction, rangeOf, wholeNumber, withDatabase, withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { clipText, showControls } from './output.ts'
import { exitCodeOf, printSummary } from './summary.ts'

/** Sends no request to the service. */
export const replay: Handler = async (invocation) => {
  const { answer } = invocation.options
  return answer === undefined ? replayMonths(invocation) : replayOne(invocation, answer)
}

const replayMonths = async (invocation: Invocation): Promise<number> => {
  if (invocation.args.length === 0)
    throw usageError('Name the pipelines to replay, or one answer: --answer ID. `millrace replay --help` has examples.')
  const { from, to } = rangeOf(invocation)
  const only = parseOnly(invocation.options['only'])
  inclusiveRange(from, to, 'month')
  return withRuntime(invocation, { callsService: false, usesLanding: true }, async (runtime, progress) => {
    const result = await replayRange(runtime, { from, to, only, signal: invocation.signal })
    progress.stop()
    // Without any answer the months or the pipeline were probably mistyped.
    return printReplay(invocation, 'replay', result) || (result.answers === 0 ? 1 : 0)
  })
}

const replayOne = async (invocation: Invocation, answer: unknown): Promise<number> => {
  const { args, options, signal } = invocation
  if (args.length > 0 || ['from', 'to', 'only'].some((name) => options[name] !== undefined))
    throw usageError('--answer ID takes neither pipelines nor months: the answer has both.')
  const answerId = wholeNumber(answer, (text) => `--answer is '${text}', expected the number of an answer.`)
  return withRuntime(invocation, { callsService: false, usesLanding: true, pipelines: [] }, async (runtime, progress) => {
    const result = await replayAnswer(runtime, answerId, signal)
    progress.stop()
    return printReplay(invocation, 'replay', result)
  })
}

/** Prints the summary. The exit code is 1 also where an answer's bytes are gone. */
const printReplay = ({ output }: Invocation, command: string, result: ReplayResult): number => {
  printSummary(output, command, result)
  const code = exitCodeOf(result, false)
  return code === 0 && result.missing > 0 ? 1 : code
}

const list = async (invocation: Invocation, pipelines: readonly string[]): Promise<number> => {
  const { options, output } = invocation
  const limit = wholeNumber(options['limit'], () => '--limit takes a whole number from 1.')
  return withDatabase(invocation, async ({ kysely }) => {
    await assertKnownPipelines(kysely, invocation, pipelines)
    const { rows, total } = await listQuarantine(kysely, { pipelines, limit, all: options['all'] === true })
    for (const row of rows) output.event({ event: 'quarantined', ...row })
    output.summary('quarantine list', { listed: rows.length, total })
    output.table(rows, {
      id: ({ quarantine_id }) => String(quarantine_id),
      unit: ({ unit_key }) => unit_key ?? '(not known)',
      part: ({ part }) => String(part),
      line: ({ line }) => String(line),
      column: ({ column_name }) => column_name,
      reason: ({ reason }) => showControls(reason),
      raw: ({ raw }) => clipText(showControls(raw.replaceAll(/\s+/g, ' ')), 60),
    })
    output.line(
      total === 0
        ? 'No rejected rows.'
        : `${rows.length} of ${counted(total, 'row')}. \`millrace quarantine show ID\` prints one in full.`,
    )
    return 0
  })
}

const show = async (invocation: Invocation, ids: readonly string[]): Promise<number> => {
  const { output } = invocation
  const words = 'Write `millrace quarantine show ID`, one id at a time; `millrace quarantine list` names the ids.'
  const id = wholeNumber(ids.join(' '), () => words)
  return withDatabase(invocation, async ({ kysely }) => {
    const row = await showQuarantine(kysely, id)
    if (row === null) throw usageError(`No row ${id} is in quarantine; \`millrace quarantine list\` lists the rows.`)
    output.summary('quarantine show', { ...row })
    for (const [name, value] of Object.entries(row))
      if (name !== 'raw') output.line(`${name.padEnd(14)} ${showControls(String(value ?? '-'))}`)
    output.line()
    output.line(showControls(row.raw))
    return 0
  })
}

const retry = async (invocation: Invocation, pipelines: readonly string[]): Promise<number> =>
  withRuntime(invocation, { callsService: false, usesLanding: true, pipelines }, async (runtime, progress) => {
    const result = await retryQuarantine(runtime, invocation.signal)
    progress.stop()
    return printReplay(invocation, 'quarantine retry', result)
  })

/** `retry` is a replay: it sends no request to the service. */
export const quarantine = byAction({ list, show, retry })
