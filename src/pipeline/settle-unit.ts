// Writes down what became of a unit whose work threw.
import { EtlError } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import { recordRequests } from '../ledger/requests.ts'
import { type ClaimedUnit, dropLanding, failUnit, holdUnit, parkUnit } from '../ledger/units.ts'
import type { UnitJob } from './queue.ts'
import { asEtlError, settle } from './settle.ts'
import { definitionOf, type Runtime } from './runtime.ts'
import type { UnitWork } from './unit-work.ts'

/** The landed bytes are no good: the next try must fetch them again instead of reading them. */
const unusable = new Set([
  'BAD_RESPONSE',
  'TRUNCATED',
  'INCOMPLETE',
  'UNSTABLE',
  'LANDING_CORRUPT',
  'LANDING_MISSING',
  'WRONG_ECHO',
])

export const interruptedBy = (signal: AbortSignal, error: unknown): unknown =>
  asEtlError(error).code === 'FENCED'
    ? error
    : ['CANCELLED', 'FENCED'].includes(asEtlError(signal.reason).code)
      ? signal.reason
      : new EtlError('INTERRUPTED', 'Stopped; the same command goes on.', { cause: error })

/** What settling needs of a runtime. */
export type SettlingRuntime = Pick<Runtime, 'database' | 'queue' | 'definitions' | 'progress' | 'log' | 'clock'>

/** Writes what became of the unit, its requests and its job in one transaction. */
export const settleUnit = async (
  runtime: SettlingRuntime,
  job: UnitJob,
  claim: ClaimedUnit,
  requests: UnitWork['requests'],
  thrown: unknown,
): Promise<void> => {
  const error = asEtlError(thrown)
  const definition = definitionOf(runtime, claim.unit.pipeline, claim.unit.version)
  const decision =
    definition === null ? ({ kind: 'fail' } as const) : settle(error, claim.attempts, definition.limits, runtime.clock)
  runtime.log.info(
    {
      run_id: job.runId,
      unit_id: claim.unitId,
      unit: claim.unit.key,
      code: error.code,
      decision: decision.kind,
      error: error.message,
    },
    'unit settled',
  )
  if (decision.kind === 'leave') return
  const reason = { code: error.code, message: redact(error.message), runId: job.runId }
  await runtime.database.kysely.transaction().execute(async (trx) => {
    await recordRequests(trx, requests.splice(0))
    if (unusable.has(error.code)) await dropLanding(trx, claim)
    if (decision.kind === 'park') {
      await parkUnit(trx, claim, {
        state: 'waiting',
        notBefore: decision.notBefore,
        countsAttempt: decision.countsAttempt,
        final: decision.final,
        ...reason,
      })
      if (decision.final) await runtime.queue.finish(trx, job)
      else await runtime.queue.again(trx, job, decision.notBefore)
    } else {
      if (decision.kind === 'return')
        await parkUnit(trx, claim, { state: 'planned', notBefore: null, countsAttempt: false, final: true, ...reason })
      else if (decision.kind === 'hold') await holdUnit(trx, claim, reason)
      else await failUnit(trx, claim, reason)
      await runtime.queue.finish(trx, job)
    }
  })
  if (decision.kind === 'return') return
  const state = decision.kind === 'park' ? 'waiting' : decision.kind === 'hold' ? 'held' : 'failed'
  if (state !== 'waiting' || (decision.kind === 'park' && decision.final)) runtime.progress.counters.unitsDone += 1
  runtime.progress.emit({
    event: 'unit',
    run_id: job.runId,
    unit_id: claim.unitId,
    unit: claim.unit.key,
    state,
    code: error.code,
    message: error.message,
    ...(decision.kind === 'park' ? { not_before: new Date(decision.notBefore).toISOString() } : {}),
  })
}
