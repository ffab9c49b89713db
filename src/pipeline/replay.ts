// Loads units again from what was landed, with no call to the service.
import { EtlError } from '../core/errors.ts'
import { inclusiveRange, showWindow } from '../core/window.ts'
import { reopenLanded } from '../ledger/register.ts'
import { existingUnits } from '../ledger/units.ts'
import type { Scope } from './plan-run.ts'
import { type RunResult, runRegistered } from './run.ts'
import type { Runtime } from './runtime.ts'

export interface ReplayRequest {
  readonly from: string
  readonly to: string
  readonly only: Scope['only']
  readonly signal: AbortSignal
}

/** Every unit of the range that has a landing is parsed and loaded again. Throws USAGE when none has. */
export const replayUnits = async (runtime: Runtime, request: ReplayRequest): Promise<RunResult> => {
  const unitIds: number[] = []
  for (const definition of runtime.definitions) {
    const range = inclusiveRange(request.from, request.to, definition.window.every)
    const existing = await existingUnits(runtime.database.kysely, definition.pipeline, definition.version)
    const inRange = existing.filter(({ unit }) => unit.window.from >= range.from && unit.window.to <= range.to)
    unitIds.push(
      ...inRange.filter((row) => row.landing !== null && isWanted(row.unit.slice, request.only)).map((row) => row.unitId),
    )
  }
  if (unitIds.length === 0) {
    const shown = showWindow(inclusiveRange(request.from, request.to, 'month'))
    throw new EtlError('LANDING_MISSING', `Nothing in ${shown} has been landed; load it first with \`millrace backfill\`.`)
  }
  return runRegistered(runtime, {
    command: 'replay',
    arguments: { from: request.from, to: request.to, pipelines: runtime.definitions.map(({ pipeline }) => pipeline) },
    definitions: runtime.definitions,
    register: (trx, runId) => reopenLanded(trx, runId, unitIds),
    aside: [],
    signal: request.signal,
  })
}

const isWanted = (slice: Readonly<Record<string, string | readonly string[]>>, only: Scope['only']): boolean => {
  for (const [dimension, wanted] of only ?? []) {
    const values = slice[dimension]
    if (values === undefined || ![values].flat().some((value) => wanted.includes(value))) return false
  }
  return true
}
