// Writes one job's answer from the service to the landing, part by part as it comes; it is whole and durable at the end.
import { randomBytes } from 'node:crypto'
import { type Completeness, maskedFingerprint } from '../core/completeness.ts'
import { type Clock, once, monotonicTime } from '../core/clock.ts'
import { type ErrorCode, EtlError, messageOf } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import type { Manifest, Question } from '../extract/landing-files.ts'
import { withGracePeriod } from '../extract/grace-period.ts'
import type { LandingWriter } from '../extract/landing-writer.ts'
import type { SourceContext } from '../extract/source.ts'
import { unfinished } from './landed-pages.ts'
import type { JobWork } from './job-work.ts'
import { asEtlError } from './settle.ts'
import type { OpenContext } from './source-context.ts'
import { questionOf } from './leave-receipts.ts'
import type { Runtime } from './runtime.ts'
import { findKeyEchoes, hasKeys, latin1Of } from '../core/key-echo.ts'
import { redact, secretMarker } from '../core/redact.ts'
import { inflated } from '../parse/inflate.ts'

/** What landing needs of the work on a job. */
export interface LandWork extends Pick<JobWork, 'claim' | 'definition' | 'source' | 'signal'> {
  readonly runtime: Pick<Runtime, 'landing' | 'warehouse' | 'progress' | 'clock' | 'log'>
}

type LandContext = SourceContext &
  Partial<Pick<OpenContext, 'billed' | 'paidPages' | 'book' | 'begun' | 'question' | 'otherSums'>>

/** An answer that is whole in the landing. */
export interface Landed {
  readonly locator: string
  readonly manifest: Manifest
  readonly completeness: Completeness
  /** The landed parts of a small answer, so that they need not be read back; null: it has more than `keptBytes`. */
  readonly kept: readonly Kept[] | null
}

/** An answer with the same bytes as the one that the units have: nothing of it was kept. */
export interface UnchangedAnswer {
  readonly completeness: Completeness
  readonly manifest: null
}

/** A part in memory. */
export interface Kept extends Omit<Payload, 'body'> {
  readonly chunks: readonly Uint8Array[]
}

/** After these errors the paid pages of a walk are useless: the answer changed meanwhile, or the job is another process's. After any other they stay good. */
const spoiling: ReadonlySet<ErrorCode> = new Set(['UNSTABLE', 'INCOMPLETE', 'FENCED'])

/** How often paid pages are saved: a kill loses at most the pages of this time. */
const saveEveryMs = 1_000

/** So long after a stop or cancel paid pages are still landed: the run must end within five seconds. */
const stillLandsMs = 3_500

/** Pauses between attempts to keep paid pages while a bucket is away; a run that stops does not wait. */
const bucketPausesMs = [1_000, 5_000, 15_000]

/** An answer of up to so many bytes is kept in memory. */
const keptBytes = 256 * 1024

/**
 * Extracts from the source and lands every part. A report's landing is opened when its first part begins to arrive: a report that is still being made throws
 * REPORT_PENDING before. After an error the landing is removed, except paid pages from which the walk resumes later, and pages that the ledger names already.
 * @param loaded SHA-256 of the answer that the units have, where it may still hold: the same bytes are not landed again
 */
export const land = async (
  work: LandWork,
  context: LandContext,
  askNumber: () => Promise<string>,
  loaded: string | null = null,
): Promise<Landed | UnchangedAnswer> => {
  const { runtime, claim, definition, source } = work
  const behind: Payload[] = []
  const parts = source.extract({ definition, box: claim.box }, { ...context, keepPart: (part) => behind.push(part) })
  const mask = maskOf(work, context)
  let writer: LandingWriter | null = null
  let begun: BegunPages | null = null
  let [kept, room]: [Kept[] | null, number] = [[], keptBytes]
  let isBetweenParts = false
  const patience = withGracePeriod(work.signal, runtime.clock, claim.kind === 'walk' ? stillLandsMs : 0)
  const open = async () => openWriter(work, patience.signal, await askNumber(), context.question?.())
  try {
    // Each page is paid for as it comes, so the landing must open before the first request. A report opens later: its purchase brings its ask number.
    if (claim.kind === 'walk') writer = await open()
    let next = await parts.next()
    writer ??= await open()
    begun = begunPages(work, context, writer, mask)
    for (; next.done !== true; next = await begun.savedDuring(parts.next())) {
      // Paid pages that have arrived are landed first: the walk then ends at its next request.
      if (context.signal.aborted && !begun.isWorthKeeping())
        throw new EtlError('INTERRUPTED', `Stopped while reading ${claim.box.key}; run the same command again to resume.`)
      runtime.progress.counters.pages += 1
      isBetweenParts = false
      const { body, ...part } = writer.part(mask(next.value))
      const chunks: Uint8Array[] = []
      for await (const chunk of body) {
        room -= chunk.length
        if (room >= 0) chunks.push(chunk)
        else kept = null
      }
      kept?.push({ ...part, chunks })
      begun.landed()
      isBetweenParts = true
    }
    const completeness = completenessOf(next.value, context)
    if (loaded !== null && writer.sha256() === loaded) return { completeness, manifest: null }
    const manifest = await writer.finish({ completeness })
    const { locator } = writer
    writer = null
    return { locator, manifest, completeness, kept }
  } catch (error) {
    // In-flight pages are paid for, too.
    await parts.return(nothingRead).catch(() => undefined)
    if ((await begun?.isKeptAfter(error, isBetweenParts ? behind : null)) === true) writer = null
    throw error
  } finally {
    await writer?.abort()
    patience.end()
    await parts.return(nothingRead).catch(() => undefined)
  }
}

const completenessOf = (
  proved: Completeness,
  { http: { dialect }, begun, billed = () => null, paidPages = () => 0, otherSums = () => null }: LandContext,
): Completeness => {
  const paid = billed()
  const earlier = begun?.paidBefore() ?? []
  const others = otherSums()
  return {
    ...maskedWords(proved),
    ...(dialect === undefined ? {} : { dialect }),
    ...(paid === null ? {} : { usedQuota: paid, paidPages: paidPages() }),
    ...(earlier.length === 0 ? {} : { earlier }),
    ...(others === null ? {} : { otherSums: others }),
  }
}

/** Saves once a second what a walk has landed and paid for, in case the process is killed. A report is bought as a whole: nothing is saved. */
const begunPages = (
  { claim, runtime: { clock, log } }: LandWork,
  context: LandContext,
  writer: LandingWriter,
  mask: (part: Payload) => Payload,
) => {
  const { begun, book, paidPages = () => 0 } = context
  let pages = 0
  let saved = 0
  /** A clock that is set back does not put off the next save. */
  const now = monotonicTime(clock)
  let savedAt = now()
  const logUnsaved = (error: unknown): void =>
    log.warn({ unit: claim.box.key, reason: messageOf(error) }, 'paid pages could not be saved yet')
  const isWorthKeeping = (): boolean => paidPages() > 0 && begun !== undefined
  const save = async (): Promise<void> => {
    savedAt = now()
    try {
      await book?.()
      // If pages of the earlier landings are still to be taken over, naming only the new landing would lose them.
      const isAmid = (await begun?.hasMore()) === true
      if (!(await writer.save({ completeness: completenessOf(unfinished, context) }))) return
      if (saved === 0) await begun?.keep(writer.locator, isAmid)
      saved = pages
    } catch (error) {
      // A database that is away for a moment must not cost the walk what it has paid for: the next second tries again.
      logUnsaved(error)
    }
  }
  return {
    isWorthKeeping,
    landed: (): void => {
      pages += 1
    },
    /** Whether the landing is kept after an error: for its paid pages, or since the ledger names it. @param behind parts behind a missing one; null: a part was cut off */
    isKeptAfter: async (error: unknown, behind: readonly Payload[] | null): Promise<boolean> => {
      const goesOn = behind !== null && isWorthKeeping() && !spoiling.has(asEtlError(error).code)
      if (!goesOn && saved === 0) return false
      // People are told the walk's own error, so an error here is only logged.
      try {
        for (const part of goesOn ? behind : []) await whole(mask(part), writer)
        if (goesOn && begun !== undefined) for await (const part of begun.rest()) await whole(mask(part), writer)
        await finishPatiently(() => writer.finish({ completeness: completenessOf(unfinished, context) }), clock, context.signal)
      } catch (cause) {
        logUnsaved(cause)
        return saved > 0
      }
      if (saved === 0) await begun?.keep(writer.locator).catch(logUnsaved)
      return true
    },
    /** Waits for the next part and saves meanwhile, since the part may take long. */
    savedDuring: async <T>(next: Promise<T>): Promise<T> => {
      if (pages === saved || !isWorthKeeping()) return next
      const leftMs = savedAt + saveEveryMs - now()
      const waiting = new AbortController()
      // Checked before the race: where pages come faster than they are written, the next page is always there.
      const isDue =
        leftMs <= 0 ||
        (await Promise.race([next.then(() => false), clock.sleep(leftMs, waiting.signal).then(() => true)]).finally(() =>
          waiting.abort(),
        ))
      if (isDue) {
        next.catch(() => undefined)
        await save()
      }
      return next
    },
  }
}

type BegunPages = ReturnType<typeof begunPages>

const finishPatiently = async (finish: () => Promise<unknown>, clock: Clock, signal: AbortSignal): Promise<unknown> => {
  for (const pause of bucketPausesMs)
    try {
      return await finish()
    } catch (error) {
      if (asEtlError(error).code !== 'LANDING_UNREACHABLE') throw error
      await clock.sleep(pause, signal)
    }
  return finish()
}

const whole = async (part: Payload, writer: LandingWriter): Promise<void> => {
  for await (const _ of writer.part(part).body);
}

const maskOf = ({ claim, definition }: LandWork, context: SourceContext): ((part: Payload) => Payload) => {
  const words = `${claim.box.key}: the service's answer names the key; it was masked before anything was kept. Tell the service.`
  const say = once(() => context.notice('KEY_ECHO', words))
  return (part) => masked(part, definition.limits.maxBodyBytes, say)
}

const openWriter = (
  { runtime, claim, definition, source }: LandWork,
  signal: AbortSignal,
  askNumber: string,
  question: Question = questionOf({ definition, source }),
): Promise<LandingWriter> =>
  runtime.landing.create(
    {
      ...{ box: claim.box, warehouse: runtime.warehouse, askNumber, fence: claim.fence, now: runtime.clock.now },
      nonce: randomBytes(3).toString('hex'),
      // A stored definition lacks the table's key.
      ...(definition.key.length === 0 ? {} : { question }),
    },
    signal,
  )

const nothingRead: Completeness = { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }

/** The part with masked keys; a gzip file is inflated first, since its bytes hide them. @param found called for each key found */
export const masked = (payload: Payload, maxBytes: number, found: () => void): Payload =>
  hasKeys() ? { ...payload, body: maskedBody(inflated(payload.body, maxBytes), found) } : payload

/** Masks what a source read from the answer by itself, before the mask. */
export const maskedWords = (completeness: Completeness): Completeness => {
  const { fingerprint, order } = completeness
  return {
    ...completeness,
    fingerprint: maskedFingerprint(fingerprint),
    ...(order == null ? {} : { order: JSON.parse(redact(JSON.stringify(order))) as typeof order }),
  }
}

/** A key may lie across two chunks, so bytes that may begin one wait for the next. Chunks are not joined: memory outside the heap makes V8 collect garbage again and again. */
async function* maskedBody(body: AsyncIterable<Uint8Array>, found: () => void): AsyncGenerator<Uint8Array, void, void> {
  let held: Uint8Array = Buffer.alloc(0)
  const passed = function* (chunk: Uint8Array, isEnd: boolean): Generator<Uint8Array> {
    const seam = held.length
    const between = (from: number, to: number): Uint8Array[] =>
      [held.subarray(from, Math.min(to, seam)), chunk.subarray(Math.max(0, from - seam), Math.max(0, to - seam))].filter(
        ({ length }) => length > 0,
      )
    const text = latin1Of(held) + latin1Of(chunk)
    const echoes = findKeyEchoes(text, isEnd)
    let from = 0
    for (const { at, end } of echoes.found) {
      found()
      yield* between(from, at)
      yield secretMarker
      from = end
    }
    yield* between(from, echoes.ready)
    const [first = Buffer.alloc(0), ...more] = between(echoes.ready, text.length)
    held = more.length === 0 ? first : Buffer.concat([first, ...more])
  }
  for await (const chunk of body) yield* passed(chunk, false)
  yield* passed(Buffer.alloc(0), true)
}
