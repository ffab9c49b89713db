// One job, from its claim to what became of it: probe, extract and land, parse, load, settle. Read it from top to bottom.
import { messageOf } from '../core/errors.ts'
import { inSpan } from '../core/trace.ts'
import type { Box, Fingerprint } from '../core/types.ts'
import { type Session, withSession } from '../db/session.ts'
import type { Landing } from '../extract/landing-store.ts'
import type { SourceContext } from '../extract/source.ts'
import { answerBox, insertAnswer } from '../ledger/answers.ts'
import { askAnew, askNumberOf } from '../ledger/ask.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { markUnchanged } from '../ledger/loads.ts'
import { recordRequests } from '../ledger/requests.ts'
import { openStaging, type Staging } from '../load/staging.ts'
import { compileParsePlan, type ParsePlan } from '../parse/plan.ts'
import { createParseReport } from '../parse/report.ts'
import { asksOf, metricsOf } from '../core/asks.ts'
import { announce, warnOfDrift } from './announce.ts'
import { conflictRecords } from './conflict-records.ts'
import { loadFilled, openMonthFilling } from './fill-month.ts'
import { type JobWork, openJob, withoutDefinition } from './job-work.ts'
import { begun, drain, type Landed, type LandedParts, landAnswer, leave } from './land.ts'
import { loadAnswer } from './load-answer.ts'
import type { LoadInput } from './load-input.ts'
import type { LoadResult } from './load-result.ts'
import { judgeLastLine, keepRejects } from './judge.ts'
import { openAnswer } from './open-answer.ts'
import type { Runtime } from './runtime.ts'
import { asEtlError } from './settle.ts'
import { interruptedBy, settleJob } from './settle-job.ts'
import { contextOf } from './source-context.ts'
import { stageParts } from './stage-answer.ts'

/** Works on one job until it is loaded, unchanged, parked, held, failed or replaced. Never throws for a job's own failure. */
export const workJob = async (runtime: Runtime, claim: ClaimedJob, signal: AbortSignal): Promise<void> => {
  const requests: JobWork['requests'] = []
  try {
    const work = await openJob(runtime, claim, requests, signal)
    await perform(work)
  } catch (error) {
    await settleJob(runtime, claim, requests, signal.aborted ? interruptedBy(signal, error) : error)
  }
}

const perform = async (work: JobWork): Promise<void> => {
  if (work.claim.answer !== null) return loadLanded(work, work.claim.answer)
  const context = contextOf(work)
  // Paid for by the request, not by the report: nothing else asks whether a budget holds it.
  if (work.source.meter !== undefined) await context.report.affordable()
  if (await standsUnchanged(work, context)) return
  await fetchAndLoad(work, context)
}

/** A refresh asks first, where asking is free or one record, whether the loaded answer still stands. */
const standsUnchanged = async (work: JobWork, context: SourceContext): Promise<boolean> => {
  const { claim, source, definition } = work
  if (source.probe === undefined || claim.loaded === null || claim.forced) return false
  const { lastUpdated, count } = claim.loaded.fingerprint
  if (lastUpdated === null) return false
  const now = await source.probe({ definition, box: claim.box }, context)
  if (now === null || now.lastUpdated !== lastUpdated || now.count !== count) return false
  await settleUnchanged(work, now)
  return true
}

const settleUnchanged = async (work: JobWork, fingerprint: Fingerprint): Promise<void> => {
  const { runtime, claim, requests } = work
  const known = [...requests]
  await runtime.database.kysely.transaction().execute(async (trx) => {
    await recordRequests(trx, known)
    await markUnchanged(trx, claim, fingerprint)
  })
  requests.splice(0, known.length)
  announce(work, 'unchanged')
}

/** What the answer at hand was asked for, and how such answers are parsed. */
interface Asked {
  readonly box: Box
  readonly plan: ParsePlan
}

/** Reads the pages until an answer held still, at most `limits.walks` times, then loads it. A report is downloaded once a claim. */
const fetchAndLoad = async (work: JobWork, context: SourceContext): Promise<void> => {
  const { runtime, claim, definition } = work
  const asked = { box: claim.box, plan: compileParsePlan(definition, claim.box, work.source) }
  let askNumber = claim.askNumber
  for (let walk = 1; ; walk += 1) {
    const number = askNumber
    try {
      const parts = await begun(landAnswer(work, context, async () => number ?? askNumberOf(runtime.database.kysely, claim)))
      return await loadWhileLanding(work, asked, parts).finally(() => leave(parts))
    } catch (error) {
      const again = asEtlError(error)
      const changed = again.code === 'UNSTABLE' || again.code === 'INCOMPLETE'
      if (!changed || claim.kind !== 'walk' || walk >= definition.limits.walks) throw error
      runtime.log.info(
        { run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key, walk, reason: again.message },
        'reading its pages again',
      )
      askNumber = await askAnew(runtime.database.kysely, claim)
    }
  }
}

const loadWhileLanding = async (work: JobWork, asked: Asked, parts: LandedParts): Promise<void> => {
  if (!work.mayLoad) {
    await record(work, await drain(parts))
    throw withoutDefinition(work.claim)
  }
  // A refresh may bring the very bytes that are loaded; then parsing them would be for nothing.
  if (work.claim.loaded !== null && !work.claim.forced) return loadUnlessSame(work, asked, parts)
  await parseAndLoad(work, asked, parts, null)
}

const loadUnlessSame = async (work: JobWork, asked: Asked, parts: LandedParts): Promise<void> => {
  const { runtime, claim } = work
  const landed = await drain(parts)
  if (landed.manifest.sha256 !== claim.loaded?.sha256) {
    const answerId = await record(work, landed)
    const { locator } = landed
    return parseAndLoad(
      work,
      asked,
      reopened(locator, () => runtime.landing.open(locator, work.signal)),
      answerId,
    )
  }
  await settleUnchanged(work, landed.completeness.fingerprint)
  // The job is settled; where this fails, retention takes the landing away.
  await runtime.landing
    .remove(landed.locator)
    .catch((error: unknown) => runtime.log.warn({ job_id: claim.jobId, error: messageOf(error) }, 'landing not removed'))
}

/** The answer may be for more than the job covers: it is parsed as what it was asked for. */
const loadLanded = async (work: JobWork, { answerId, landing }: NonNullable<ClaimedJob['answer']>): Promise<void> => {
  const { runtime, claim, definition } = work
  if (!work.mayLoad) throw withoutDefinition(claim)
  const box = await answerBox(runtime.database.kysely, answerId, claim)
  const parts = reopened(landing, () => openAnswer(runtime, { answerId, landing }, work.signal))
  await parseAndLoad(work, { box, plan: compileParsePlan(definition, box, work.source) }, parts, answerId)
}

/**
 * A month's first answer goes straight into the month's table; where that does not fit it is read once more, from its landing.
 * @param answerId null: not recorded yet. A report's answer is recorded before anything else happens; a walk's few pages may be asked for again.
 */
const parseAndLoad = (work: JobWork, asked: Asked, parts: LandedParts, answerId: number | null): Promise<void> =>
  withSession(work.runtime.database.pool, async (session) => {
    const staged = { staging: openStaging(session, work.definition), plan: asked.plan, load: loadAnswer }
    const filled = await openMonthFilling(work, session, asked.box)
    if (filled === null) return void (await readAndLoad(work, session, { ...asked, ...staged }, parts, answerId))
    const { filling, mark } = filled
    const plan = { ...asked.plan, mark }
    const load: Way['load'] = (_, inside, input) => loadFilled(work, inside, filled, input)
    const left = await readAndLoad(work, session, { ...asked, plan, staging: filling, load }, parts, answerId)
    if (left === null) return
    const { locator } = left.landed
    const again = reopened(locator, () => work.runtime.landing.open(locator, work.signal))
    await readAndLoad(work, session, { ...asked, ...staged }, again, left.answerId)
  })

/** How an answer's rows reach the database. */
interface Way extends Asked {
  readonly staging: Staging
  /** null: this way does not fit the answer, and nothing of it is loaded. */
  readonly load: (work: JobWork, session: Session, input: LoadInput) => Promise<LoadResult | null>
}

/** null: it is loaded; else what was landed, to be read another way. */
const readAndLoad = async (
  work: JobWork,
  session: Session,
  { box, plan, staging, load }: Way,
  parts: LandedParts,
  answerId: number | null,
): Promise<{ readonly landed: Landed; readonly answerId: number } | null> => {
  const parsed = createParseReport()
  const { result: landed, refusal } = await stageParts(work, plan, staging, parsed, parts)
  const known = onRecord(work, landed, answerId)
  if (work.claim.kind === 'report') await known()
  if (refusal !== null) {
    await keepRejects(work, await known(), parsed)
    throw refusal
  }
  judgeLastLine(work, parsed)
  const { manifest, locator, completeness } = landed
  const result = await inSpan('load', { 'millrace.job': work.claim.box.key, 'millrace.rows': parsed.read }, () =>
    load(work, session, {
      staging,
      parsed,
      completeness,
      landing: { locator, sha256: manifest.sha256, bytes: manifest.bytes },
      box,
      answerId,
      record: known,
      rawRecords: (ordinals) => conflictRecords(work.runtime.landing, locator, plan, ordinals),
    }),
  )
  if (result === null) work.runtime.progress.counters.rowsRead -= parsed.rows
  else announce(work, result)
  if (result !== null) warnOfDrift(work, parsed)
  // After an error the session is thrown away as it is: emptying the table over a dead connection would hide what happened, or hang.
  await staging.close()
  return result === null ? { landed, answerId: await known() } : null
}

/** Puts the answer on record, once; its number. */
const onRecord = (work: JobWork, landed: Landed, answerId: number | null): (() => Promise<number>) => {
  let recording: Promise<number> | null = answerId === null ? null : Promise.resolve(answerId)
  return () => {
    recording ??= record(work, landed)
    return recording
  }
}

/** The answer is whole on disk: from here on nothing is asked for again by this job. */
const record = ({ runtime, claim, definition }: JobWork, { locator, manifest, completeness }: Landed): Promise<number> =>
  insertAnswer(runtime.database.kysely, claim, {
    locator,
    sha256: manifest.sha256,
    bytes: manifest.bytes,
    fingerprint: completeness.fingerprint,
    dataPoints: completeness.dataPoints,
    order: completeness.order ?? null,
    asks: asksOf(definition),
    metrics: metricsOf(definition),
  })

/** An answer read back from its landing. */
async function* reopened(locator: string, open: () => Promise<Landing>): LandedParts {
  const { manifest, parts } = await open()
  for await (const part of parts()) yield { ...part, mayBeEmpty: manifest.completeness.dataPoints === 0 }
  return { locator, manifest, completeness: manifest.completeness }
}
