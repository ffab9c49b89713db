// One unit, end to end: claim, look whether anything changed, extract or reopen its landing, load, settle.
import { EtlError, messageOf } from '../core/errors.ts'
import { inSpan } from '../core/trace.ts'
import type { Payload } from '../core/types.ts'
import { markUnchanged } from '../ledger/loads.ts'
import { insertQuarantine, type QuarantineEntry, supersedeQuarantine } from '../ledger/quarantine.ts'
import { recordRequests } from '../ledger/requests.ts'
import { type ClaimedUnit, claimUnit, lockUnit, markLanded } from '../ledger/units.ts'
import { type Session, withSession } from '../db/session.ts'
import type { SourceContext } from '../extract/source.ts'
import { openStaging } from '../load/staging.ts'
import { compileParsePlan, type ParsePlan } from '../parse/plan.ts'
import type { ParseReport } from '../parse/report.ts'
import { conflictRecords } from './conflict-records.ts'
import { beginExtract, type Extracted, extractUnit, type PartSink } from './extract-unit.ts'
import { entryOf, loadUnit, shownRejects } from './load-unit.ts'
import type { UnitJob } from './queue.ts'
import { asEtlError } from './settle.ts'
import { interruptedBy, settleUnit } from './settle-unit.ts'
import { definitionOf, type Runtime } from './runtime.ts'
import { contextOf } from './source-context.ts'
import { type AnswerStage, createAnswerStage } from './stage-answer.ts'
import type { UnitWork } from './unit-work.ts'

/** How long a claim holds without being renewed; the queue's heartbeat takes the job over sooner. */
export const leaseMs = 30_000

/** Works on one job until the unit is loaded, unchanged, parked, held or failed. Never throws for a unit's own failure. */
export const workUnit = async (runtime: Runtime, job: UnitJob, signal: AbortSignal): Promise<void> => {
  const claim = await claimUnit(runtime.database.kysely, job.unitId, {
    owner: runtime.owner,
    leaseMs,
    runId: job.runId,
    holds: runtime.queue.holds(job),
  })
  if (claim === null) return runtime.queue.finish(runtime.database.kysely, job)
  const requests: UnitWork['requests'] = []
  try {
    const work = openWork(runtime, job, claim, requests, signal)
    await perform(work)
  } catch (error) {
    await settleUnit(runtime, job, claim, requests, signal.aborted ? interruptedBy(signal, error) : error)
  }
}

const openWork = (
  runtime: Runtime,
  job: UnitJob,
  claim: ClaimedUnit,
  requests: UnitWork['requests'],
  signal: AbortSignal,
): UnitWork => {
  const definition = definitionOf(runtime, claim.unit.pipeline, claim.unit.version)
  const source = definition === null ? undefined : runtime.sources.get(definition.source)
  if (definition === null || source === undefined) {
    throw new EtlError(
      'DEFINITION',
      `${claim.unit.key}: no definition of ${claim.unit.pipeline} version ${claim.unit.version} is here; put it back under pipelines/.`,
    )
  }
  return { runtime, job, claim, definition, source, requests, signal }
}

const perform = async (work: UnitWork): Promise<void> => {
  const { claim } = work
  if (claim.landing !== null) return loadFromLanding(work, claim.landing)
  const context = contextOf(work)
  if (await unchangedByProbe(work, context)) return
  await extractAndLoad(work, context)
}

/** A refresh asks first, where asking is free or one record, whether the loaded answer still stands. */
const unchangedByProbe = async (work: UnitWork, context: SourceContext): Promise<boolean> => {
  const { claim, source, runtime, job } = work
  if (source.probe === undefined || claim.loaded === null || claim.forced) return false
  const { lastUpdated, count } = claim.loaded.fingerprint
  if (lastUpdated === null) return false
  const now = await source.probe({ definition: work.definition, unit: claim.unit }, context)
  if (now === null || now.lastUpdated !== lastUpdated || now.count !== count) return false
  await runtime.database.kysely.transaction().execute(async (trx) => {
    await recordRequests(trx, work.requests.splice(0))
    await markUnchanged(trx, claim, { runId: job.runId, fingerprint: now })
    await runtime.queue.finish(trx, job)
  })
  announce(work, 'unchanged', 0)
  return true
}

/** Walks until an answer held still, at most `limits.walks` times, then loads it. */
const extractAndLoad = async (work: UnitWork, context: SourceContext): Promise<void> => {
  const { definition, claim } = work
  const plan = compileParsePlan(definition, claim.unit)
  for (let walk = 1; ; walk += 1) {
    try {
      return await walkAndLoad(work, context, plan)
    } catch (error) {
      const again = asEtlError(error)
      const changed = again.code === 'UNSTABLE' || again.code === 'INCOMPLETE'
      if (!changed || work.source.kind !== 'walk' || walk >= definition.limits.walks) throw error
      work.runtime.log.info(
        { run_id: work.job.runId, unit_id: claim.unitId, unit: claim.unit.key, walk, reason: again.message },
        'walking again',
      )
    }
  }
}

const walkAndLoad = async (work: UnitWork, context: SourceContext, plan: ParsePlan): Promise<void> => {
  // A report that is still being made ends here: neither a connection nor a file is opened to hear "not yet".
  const begun = await beginExtract(work, context)
  await withStaging(work, plan, async (session, stage) => {
    // A refresh may bring the very bytes that are loaded; then parsing them would be for nothing.
    const parseLater = work.claim.loaded !== null && !work.claim.forced
    const sink = parseLater ? drain : { take: (payload: Payload) => stagePart(work, payload, stage), end: stage.end }
    const extracted = await extractUnit(work, context, begun, sink)
    const mark = landedMark(work, extracted)
    // Asking a walk's few pages once more after a crash costs nothing; a report's answer is written down before anything else happens.
    const markLater = work.source.kind === 'walk' && stage.staging.held() !== null && work.claim.loaded === null
    if (!markLater) await mark()
    if (parseLater && extracted.manifest.sha256 === work.claim.loaded?.sha256) return sameBytes(work, extracted)
    if (parseLater) await stageLanding(work, extracted.locator, stage)
    await loadStaged(work, session, stage, plan, extracted, mark)
  }).finally(() => begun.close())
}

/** Writes down that the answer is whole on disk, once. */
const landedMark = ({ runtime, claim }: UnitWork, { locator, manifest: { sha256, bytes } }: Extracted): (() => Promise<void>) => {
  let marking: Promise<void> | null = null
  return () => {
    marking ??= markLanded(runtime.database.kysely, claim, { landing: locator, sha256, bytes })
    return marking
  }
}

/** After an error the session is thrown away as it is: emptying the table over a dead connection would hide what happened, or hang. */
const withStaging = (
  work: UnitWork,
  plan: ParsePlan,
  use: (session: Session, stage: AnswerStage) => Promise<void>,
): Promise<void> =>
  withSession(work.runtime.database.pool, async (session) => {
    const staging = openStaging(session, work.definition)
    await use(session, createAnswerStage(work, plan, staging))
    await staging.close()
  })

const drain: PartSink = {
  take: async ({ body }) => {
    for await (const _ of body) {
      // The landing writes the bytes as they are pulled.
    }
  },
  end: async () => undefined,
}

const stagePart = async (work: UnitWork, payload: Payload, stage: AnswerStage): Promise<void> => {
  try {
    await stage.take(payload)
  } catch (error) {
    // Parsing gives up on an answer that is nothing but rejects; some of them are kept for a look.
    if (asEtlError(error).code === 'TOO_MANY_REJECTS') await keepRejects(work, stage.parsed, work.claim.landing)
    throw error
  }
}

const stageLanding = async (work: UnitWork, locator: string, stage: AnswerStage): Promise<Extracted> => {
  const landing = await work.runtime.landing.open(locator, work.signal)
  for await (const payload of landing.parts()) await stagePart(work, payload, stage)
  return { completeness: landing.manifest.completeness, manifest: landing.manifest, locator }
}

const sameBytes = async (work: UnitWork, { completeness, locator }: Extracted): Promise<void> => {
  const { runtime, claim, job } = work
  await runtime.database.kysely.transaction().execute(async (trx) => {
    await recordRequests(trx, work.requests.splice(0))
    await markUnchanged(trx, claim, { runId: job.runId, fingerprint: completeness.fingerprint })
    await runtime.queue.finish(trx, job)
  })
  // The unit is settled; where this fails, retention takes the landing away.
  await runtime.landing
    .remove(locator)
    .catch((error: unknown) => runtime.log.warn({ unit_id: claim.unitId, error: messageOf(error) }, 'landing not removed'))
  announce(work, 'unchanged', 0)
}

const loadFromLanding = (work: UnitWork, locator: string): Promise<void> => {
  const plan = compileParsePlan(work.definition, work.claim.unit)
  return withStaging(work, plan, async (session, stage) => {
    const extracted = await stageLanding(work, locator, stage)
    await loadStaged(work, session, stage, plan, extracted, async () => undefined)
  })
}

const loadStaged = async (
  work: UnitWork,
  session: Session,
  stage: AnswerStage,
  plan: ParsePlan,
  { completeness, manifest, locator }: Extracted,
  mark: () => Promise<void>,
): Promise<void> => {
  const { staging, parsed } = stage
  let conflicting: readonly QuarantineEntry[] = []
  await stage.end()
  try {
    const counts = await inSpan('load', { 'millrace.unit': work.claim.unit.key, 'millrace.rows': parsed.read }, () =>
      loadUnit(work, session, {
        staging,
        parsed,
        completeness,
        landing: { locator, sha256: manifest.sha256, bytes: manifest.bytes },
        markLanded: mark,
        rawRecords: async (ordinals) => {
          conflicting = await conflictRecords(work.runtime.landing, locator, plan, ordinals)
          return conflicting
        },
      }),
    )
    announce(work, 'loaded', counts.read)
    warnOfDrift(work, parsed)
  } catch (error) {
    if (asEtlError(error).code === 'TOO_MANY_REJECTS') await keepRejects(work, parsed, locator, conflicting)
    throw error
  }
}

/** A column that came or went is loaded around, and said: nobody should find out from a chart. */
const warnOfDrift = ({ runtime, claim }: UnitWork, { missingColumns, unknownColumns }: ParseReport): void => {
  const said = [
    ...(missingColumns.length > 0 ? [`the answer lacks ${missingColumns.join(', ')} (loaded as NULL)`] : []),
    ...(unknownColumns.length > 0
      ? [`the answer has ${unknownColumns.join(', ')}, which the definition does not name (left in the landing)`]
      : []),
  ]
  if (said.length > 0)
    runtime.progress.emit({
      event: 'notice',
      code: 'DRIFT',
      message: `${claim.unit.key}: ${said.join('; ')}. Mend the definition, then \`millrace replay\`.`,
    })
}

/**
 * The rows that failed the unit are kept where a person can read them; the data stays as it was. Those of an earlier try of the same
 * edition give way: a unit that fails every night is not in quarantine a hundred times.
 */
const keepRejects = async (
  { runtime, claim, job, definition }: UnitWork,
  parsed: ParseReport,
  landing: string | null,
  conflicting: readonly QuarantineEntry[] = [],
): Promise<void> => {
  const entries = [...parsed.rejected.map(entryOf), ...conflicting].slice(0, shownRejects)
  if (entries.length === 0) return
  await runtime.database.kysely.transaction().execute(async (trx) => {
    await lockUnit(trx, claim)
    await supersedeQuarantine(trx, claim.unitId, claim.edition)
    await insertQuarantine(trx, {
      unitId: claim.unitId,
      edition: claim.edition,
      runId: job.runId,
      pipeline: definition.pipeline,
      landing,
      entries,
    })
  })
}

const announce = ({ runtime, job, claim }: UnitWork, state: 'loaded' | 'unchanged', rows: number): void => {
  runtime.progress.counters.unitsDone += 1
  runtime.log.info({ run_id: job.runId, unit_id: claim.unitId, unit: claim.unit.key, state, rows }, 'unit done')
  runtime.progress.emit({ event: 'unit', run_id: job.runId, unit_id: claim.unitId, unit: claim.unit.key, state, rows })
}
