// One job, from its claim until it is settled: probe, extract and land, then parse and load the landed bytes. Read it from top to bottom.
import { Readable } from 'node:stream'
import { type Completeness, isSameFingerprint, maskedFingerprint } from '../core/completeness.ts'
import { EtlError, isEtlError } from '../core/errors.ts'
import { isProbeCheaper, probePrice, pagePrices } from '../plan/price.ts'
import type { Fingerprint, Payload } from '../core/types.ts'
import type { Question } from '../extract/landing-files.ts'
import type { Landing } from '../extract/landing-reader.ts'
import { faultOf, isSameFault, unusable } from '../extract/proved-shape.ts'
import { answerBox, insertAnswer } from '../ledger/answers.ts'
import { restartWalk, askNumberOf, countUnstableRun } from '../ledger/claim-fence.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { markUnchanged } from '../ledger/loads.ts'
import {
  type JobWork,
  type LandedAnswer,
  type LoadResult,
  nothingPaid,
  openJob,
  withoutDefinition,
  withRequests,
} from './job-work.ts'
import { type Landed, land } from './land.ts'
import { noteUnrecorded } from './unrecorded-work.ts'
import { strayWords } from './judge.ts'
import { loadAnswer } from './load-answer.ts'
import { answerIn, openAnswer } from './open-answer.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'
import type { Runtime } from './runtime.ts'
import { asEtlError, interruptedBy, settleJob } from './settle.ts'
import { contextOf, type OpenContext } from './source-context.ts'
import type { ParseReport } from '../parse/parse-report.ts'

/** Works on one job until it is loaded, unchanged, parked, held, failed or replaced. Never throws for a job's own failure. */
export const workJob = async (runtime: Runtime, claim: ClaimedJob, signal: AbortSignal): Promise<void> => {
  const paid = nothingPaid()
  try {
    const work = await openJob(runtime, claim, paid, signal)
    await perform(work)
  } catch (error) {
    const thrown = signal.aborted ? interruptedBy(signal, error) : error
    await retryWhileAway(runtime, signal, () => settleJob(runtime, claim, paid, thrown))
      .catch((refused: unknown) => {
        if (asEtlError(refused).code !== 'FENCED') throw refused
        // Another process has the job by now; the requests of this one are recorded all the same.
        return settleJob(runtime, claim, paid, refused)
      })
      .catch(async (refused: unknown) => {
        await noteUnrecorded(runtime, claim, paid)
        throw refused
      })
  }
}

const perform = async (work: JobWork): Promise<void> => {
  const { answer, fetchesAgain } = work.claim
  if (answer !== null && !fetchesAgain) return loadAgain(work, answer)
  const context = contextOf(work)
  try {
    if (await standsUnchanged(work, context)) return
    await fetchAndLoad(work, context)
  } finally {
    await context.end()
  }
}

/** A refresh first probes, where that is free or cheaper than the pages, whether the loaded answer still holds. */
const standsUnchanged = async (work: JobWork, context: OpenContext): Promise<boolean> => {
  const { claim, source, definition } = work
  const { probe } = source
  if (probe === undefined || claim.loaded === null || claim.forced || !isRequestedAlike(work)) return false
  const { fingerprint } = claim.loaded
  if (fingerprint.lastUpdated === null || !(await isWorthALook(work))) return false
  const now = await context.begun.look(() => probe({ definition, box: claim.box }, context))
  if (now === null || !isSameFingerprint(now, fingerprint)) return false
  await settleUnchanged(work, { ...maskedFingerprint(now), count: now.count ?? fingerprint.count })
  return true
}

/** With another number of first rows the same bytes are another answer: a unit that kept the former one would be requested again by each run. */
const isRequestedAlike = ({ claim, source, definition }: JobWork): boolean =>
  claim.loaded?.top === (source.limitsOf?.(definition.params).top ?? null)

const isWorthALook = async ({ runtime, definition, source }: JobWork): Promise<boolean> => {
  if (source.billing === undefined) return true
  const { known, unit } = await pagePrices(runtime.database.kysely, runtime, { definition, source })
  return isProbeCheaper(probePrice(known), unit)
}

const settleUnchanged = async (work: JobWork, fingerprint: Fingerprint): Promise<void> => {
  const { runtime, claim, requests } = work
  await withRequests(runtime.database, requests, (trx) => markUnchanged(trx, claim, fingerprint))
  announce(work, 'unchanged')
}

/** After so many runs in which the pages changed while they were read, a person is asked. */
const mostRunsInVain = 3

/** Reads the pages until they did not change while they were read, at most `limits.walks` times, then loads them. A report is downloaded once per claim. */
const fetchAndLoad = async (work: JobWork, context: OpenContext): Promise<void> => {
  const { runtime, claim, definition } = work
  let askNumber = claim.askNumber
  let before: string | null = null
  for (let walk = 1; ; walk += 1) {
    const number = askNumber
    try {
      const drawn = async () => number ?? askNumberOf(runtime.database.kysely, claim)
      const loaded = work.hasFullDefinition && !claim.forced && isRequestedAlike(work) ? (claim.loaded?.sha256 ?? null) : null
      const landed = await land(work, context, drawn, loaded).catch((error: unknown) => {
        throw claim.fetchesAgain ? stillShort(work, error) : error
      })
      // A refresh may bring the very bytes that are loaded: then nothing is landed or parsed.
      if (landed.manifest === null) {
        await context.begun.drop()
        return await settleUnchanged(work, landed.completeness.fingerprint)
      }
      const answerId = await retryWhileAway(runtime, work.signal, () => record(work, landed, context.question())).catch(
        (error: unknown) => {
          // The landed pages serve a resume, like those of a stopped walk.
          if (claim.kind === 'walk') work.unnamed.add(landed.locator)
          throw error
        },
      )
      await context.begun.drop()
      return await loadLanded(work, landed, answerId)
    } catch (error) {
      const again = asEtlError(error)
      const changed = again.code === 'UNSTABLE' || again.code === 'INCOMPLETE'
      if (!changed || claim.kind !== 'walk') throw error
      if (isSameFault(again, before)) throw unusable(again, 'The same came twice')
      if (walk >= definition.limits.walks) {
        const runs = await retryWhileAway(runtime, work.signal, () => countUnstableRun(runtime.database.kysely, claim))
        throw runs >= mostRunsInVain ? unusable(again, `Its pages changed in each of ${mostRunsInVain} runs`) : error
      }
      before = faultOf(again)
      await context.begun.restart()
      runtime.log.info(
        { run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key, walk, reason: again.message },
        'reading its pages again',
      )
      askNumber = await restartWalk(runtime.database.kysely, claim)
    }
  }
}

/** An incomplete report is paid for. Where it cannot be downloaded again, it stays held for a person, and the next run tries again. */
const stillShort = ({ claim, signal }: JobWork, error: unknown): unknown => {
  const { code, message } = asEtlError(error)
  if (signal.aborted || code === 'FENCED') return error
  return new EtlError(
    'INCOMPLETE',
    `${claim.box.key}: the report is incomplete and held; downloading it again failed (${message}) The next run tries again, free of charge; ` +
      '`millrace release UNIT` (`millrace status` names it) loads it as it is.',
    { cause: error, follows: { next: 'keep the answer' } },
  )
}

const loadLanded = async (work: JobWork, landed: Landed, answerId: number): Promise<void> => {
  const { runtime, claim } = work
  const { locator, manifest, completeness } = landed
  const open = () => runtime.landing.open(locator, work.signal)
  await load(work, {
    answerId,
    box: claim.box,
    completeness,
    bytes: manifest.bytes,
    parts: () => partsOf(completeness, landed.kept, open),
  })
}

/** From here on nothing is requested for the job again: its answer is whole in the landing. */
const record = (
  { runtime, claim }: JobWork,
  { locator, manifest, completeness }: Landed,
  { asks, metrics, top = null }: Question,
): Promise<number> =>
  insertAnswer(runtime.database.kysely, claim, {
    ...answerIn(locator, { ...manifest, completeness }),
    ...{ asks, metrics, top },
  })

/** Loads an answer that was landed before. It may cover more than the job does, so it is parsed by the box that it was requested for. */
const loadAgain = async (work: JobWork, answer: NonNullable<ClaimedJob['answer']>): Promise<void> => {
  const { runtime, claim } = work
  if (!work.hasFullDefinition) throw withoutDefinition(claim)
  const { answerId } = answer
  const box = await answerBox(runtime.database.kysely, answerId, claim)
  const { manifest } = await openAnswer(runtime, answer, work.signal)
  const { completeness, bytes } = manifest
  const open = () => runtime.landing.open(answer.landing, work.signal)
  await load(work, { answerId, box, completeness, bytes, parts: () => partsOf(completeness, null, open) })
}

async function* partsOf(
  { dataPoints }: Completeness,
  kept: Landed['kept'],
  open: () => Promise<Landing>,
): AsyncGenerator<Payload, void, void> {
  const mayBeEmpty = dataPoints === 0
  if (kept === null) for await (const part of (await open()).parts()) yield { ...part, mayBeEmpty }
  else for (const { chunks, ...part } of kept) yield { ...part, mayBeEmpty, body: Readable.from(chunks) }
}

const load = async (work: JobWork, answer: LandedAnswer): Promise<void> => {
  if (!work.hasFullDefinition) throw withoutDefinition(work.claim)
  const { result, parsed } = await loadAnswer(work, answer).catch((error: unknown) => {
    throw work.claim.kind === 'walk' || work.claim.isReplay ? kept(error) : error
  })
  announce(work, result)
  warnOfDrift(work, parsed, result)
}

/** Fetching whole pages again would cost, so they stay, and each run tries to load them. A report is downloaded again for free, but by no replay. */
const kept = (error: unknown): unknown =>
  isEtlError(error) && (error.code === 'BAD_RESPONSE' || error.code === 'WRONG_ECHO')
    ? error.with(error.message, { follows: { next: 'keep the answer' } })
    : error

/** @param result of the load; `unchanged` where the loaded answer still holds. */
const announce = ({ runtime, claim }: JobWork, result: LoadResult | 'unchanged'): void => {
  runtime.progress.counters.unitsDone += claim.cells
  const names = { run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key, units: claim.cells }
  const loaded = result === 'unchanged' ? null : result
  const heldUnits = loaded?.unitsHeld ?? 0
  const state = loaded === null ? 'unchanged' : heldUnits === claim.cells ? 'held' : 'loaded'
  const rows = loaded?.read ?? 0
  runtime.log.info({ ...names, state, rows, held_units: heldUnits }, 'job done')
  const held = heldUnits > 0 ? { held_units: heldUnits, ...loaded?.heldBecause } : {}
  runtime.progress.emit({ event: 'unit', ...names, state, rows, ...held })
}

/** Drift notices that a command has emitted, by run. */
const said = new WeakMap<Runtime['progress'], Set<string>>()

/** What the service adds to its answers is in all answers of a night: people are told once. */
const isFirstSaid = ({ runtime, claim }: JobWork, words: string): boolean => {
  const before = said.get(runtime.progress) ?? new Set()
  said.set(runtime.progress, before)
  if (before.size >= 1_000) before.clear()
  const size = before.size
  return before.add(`${claim.runId} ${claim.pipelineId} ${words}`).size > size
}

/** The load works without a column that came or went; people are told before a chart shows it. */
const warnOfDrift = (work: JobWork, parsed: ParseReport, { drift, unitsLoaded }: LoadResult): void => {
  const { runtime, claim } = work
  const { missingColumns, unknownColumns } = drift ?? { missingColumns: [], unknownColumns: [] }
  if (parsed.strays.rows > 0)
    runtime.progress.emit({ event: 'notice', code: 'DRIFT', message: `${claim.box.key}: ${strayWords(work, parsed)}.` })
  const words = [
    ...(missingColumns.length > 0
      ? [`the answer lacks ${missingColumns.join(', ')}${unitsLoaded > 0 ? ' (loaded as NULL, or as if_absent says)' : ''}`]
      : []),
    ...(unknownColumns.length > 0
      ? [`the answer has ${unknownColumns.join(', ')}, which the definition does not name (left in the landing)`]
      : []),
  ]
  if (words.length > 0 && isFirstSaid(work, words.join()))
    runtime.progress.emit({
      event: 'notice',
      code: 'DRIFT',
      message: `${claim.box.key}: ${words.join('; ')}. Correct the definition, then run \`millrace replay\`. Reported once per run; other units may be affected, too.`,
    })
}
