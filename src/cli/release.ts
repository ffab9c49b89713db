// `millrace release UNIT…`: a person releases held units.
import { releaseUnits } from '../pipeline/release.ts'
import type { Handler } from './command-spec.ts'
import { wholeNumber } from './options.ts'
import { withRuntime } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const ids = invocation.args.map((arg) =>
    wholeNumber(arg, (text) => `'${text}' is not a unit's number; \`millrace status\` lists held units.`),
  )
  return withRuntime(invocation, { callsService: false, usesLanding: false, pipelines: [] }, async (runtime) => {
    const released = await releaseUnits(runtime, ids, 'command line')
    const missing = ids.filter((id) => !released.includes(id))
    invocation.output.event({ event: 'summary', command: 'release', released, not_held: missing })
    for (const id of released) invocation.output.line(`unit ${id} released; the next run or backfill loads it`)
    for (const id of missing) invocation.output.line(`unit ${id} is not held; \`millrace status\` lists held units`)
    return missing.length === 0 ? 0 : 1
  })
}
