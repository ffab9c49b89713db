// One job, from its claim to what became of it: probe, extract and land, parse, load, settle. Read it from top to bottom.
import { messageOf } from '../core/errors.ts'
import type { Fingerprint } from '../core/types.ts'
import type { SourceContext } from '../extract/source.ts'
import { answerBox } from '../ledger/answers.ts'
import { askAnew, askNumberOf } from '../ledger/ask.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { markUnchanged } from '../ledger/loads.ts'
import { recordRequests } from '../ledger/requests.ts'
import { compileParsePlan } from '../parse/plan.ts'
import { announce } from './announce.ts'
import { type JobWork, openJob, withoutDefinition } from './job-work.ts'
import { begun, drain, type Landed, type LandedParts, landAnswer, leave } from './land.ts'
import { isSameAnswer, loadProven } from './load-proven.ts'
import { openAnswer } from './open-answer.ts'
import { type Asked, parseAndLoad } from './parse-and-load.ts'
import { type Former, formerOf } from './proof-of-load.ts'
import { record, reopened } from './record-answer.ts'
import type { Runtime } from './runtime.ts'
import { beginningOf } from './same-beginning.ts'
import { asEtlError } from './settle.ts'
import { interruptedBy, settleJob } from './settle-job.ts'
import { contextOf } from './source-context.ts'

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
  const former = await formerOf(work)
  if (former === null) return parseAndLoad(work, asked, parts, null)
  await loadUnlessProven(work, asked, parts, former)
}

/** Parsing as the answer comes is quicker, so it waits only for one that begins as the loaded one does. */
const loadUnlessProven = async (work: JobWork, asked: Asked, parts: LandedParts, former: Former): Promise<void> => {
  const beginning = await beginningOf(work, former, parts)
  if (!beginning.isSame) return parseAndLoad(work, asked, beginning.parts, null)
  const landed = await drain(beginning.parts)
  const answerId = await record(work, landed)
  const result = isSameAnswer(former, landed) ? await loadProven(work, answerId, former) : null
  if (result === null) return parseLanded(work, asked, landed, answerId)
  announce(work, result)
}

const parseLanded = (work: JobWork, asked: Asked, { locator }: Landed, answerId: number): Promise<void> => {
  const { runtime, signal } = work
  const parts = reopened(locator, () => runtime.landing.open(locator, signal))
  return parseAndLoad(work, asked, parts, answerId)
}

const loadUnlessSame = async (work: JobWork, asked: Asked, parts: LandedParts): Promise<void> => {
  const { runtime, claim } = work
  const landed = await drain(parts)
  if (landed.manifest.sha256 !== claim.loaded?.sha256) {
    return parseLanded(work, asked, landed, await record(work, landed))
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
