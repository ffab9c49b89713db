// `millrace release UNIT…`: a person lets held units go on.
import { EtlError } from '../core/errors.ts'
import { releaseHeld } from '../ledger/held.ts'
import type { Handler } from './command-spec.ts'
import { withRuntime } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const ids = invocation.args.map(unitId)
  return withRuntime(invocation, { callsService: false, usesLanding: false, pipelines: [] }, async (runtime) => {
    const released = await releaseHeld(runtime.database.kysely, ids)
    const missing = ids.filter((id) => !released.includes(id))
    invocation.output.event({ event: 'summary', command: 'release', released, not_held: missing })
    for (const id of released) invocation.output.line(`unit ${id} released; the next run or backfill loads it`)
    for (const id of missing) invocation.output.line(`unit ${id} is not held; \`millrace status\` lists held units`)
    return missing.length === 0 ? 0 : 1
  })
}

const unitId = (text: string): number => {
  const id = Number(text)
  if (!Number.isSafeInteger(id) || id < 1)
    throw new EtlError('USAGE', `'${text}' is not a unit's number; \`millrace status\` lists held units.`)
  return id
}
