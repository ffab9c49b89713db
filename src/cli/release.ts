// `millrace release UNIT…`: a person releases held units.
import { EtlError } from '../core/errors.ts'
import { releaseByPerson, unknownUnits } from '../ledger/actions.ts'
import type { Runtime } from '../pipeline/runtime.ts'
import type { Handler } from './command-spec.ts'
import { wholeNumber } from './options.ts'
import { withRuntime } from './runtime.ts'

/** Allows what is held to load, or to be asked for again. */
export const handle: Handler = async (invocation) => {
  const ids = invocation.args.map((arg) =>
    wholeNumber(arg, (text) => `'${text}' is not a unit's number; \`millrace status\` lists held units.`),
  )
  return withRuntime(invocation, { callsService: false, usesLanding: false, pipelines: [] }, async (runtime) => {
    const released = await releaseUnits(runtime, ids, 'command line')
    const missing = ids.filter((id) => !released.includes(id))
    invocation.output.event({ event: 'summary', command: 'release', released, not_held: missing })
    for (const id of released) invocation.output.line(`unit ${id} released; the next run or backfill tries it again`)
    for (const id of missing) invocation.output.line(`unit ${id} is not held; \`millrace status\` lists held units`)
    return missing.length === 0 ? 0 : 1
  })
}

/**
 * Those of `unitIds` that were held, in their order; each is a transaction of its own with its event. Throws USAGE, and releases none, where the ledger
 * does not know one of them.
 */
const releaseUnits = async (runtime: Pick<Runtime, 'database'>, unitIds: readonly number[], by: string): Promise<number[]> => {
  const unknown = await unknownUnits(runtime.database.kysely, unitIds)
  if (unknown.length > 0) {
    const named = unknown.length === 1 ? `is no unit ${unknown[0]}` : `are no units ${unknown.join(', ')}`
    throw new EtlError('USAGE', `There ${named}; \`millrace status\` lists held units with their numbers. Nothing was released.`)
  }
  const released: number[] = []
  for (const unitId of unitIds) if (await releaseByPerson(runtime.database.kysely, unitId, by)) released.push(unitId)
  return released
}
