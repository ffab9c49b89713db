// Whether an answer on its way begins as one that is landed, before it is decided whether to parse it as it comes.
import { messageOf } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import type { JobWork } from './job-work.ts'
import type { LandedParts } from './land.ts'
import { openAnswer } from './open-answer.ts'

/** An answer whose values were restated differs in some row of so many. */
const headBytes = 256 * 1024

export interface Beginning {
  readonly isSame: boolean
  /** All of the answer, what was read of it included; it takes the place of the parts that were given. */
  readonly parts: LandedParts
}

/** Reads no further than the first bytes that differ. A landing that cannot be read begins as nothing does. */
export const beginningOf = async (
  work: JobWork,
  former: { readonly answerId: number; readonly landing: string },
  parts: LandedParts,
): Promise<Beginning> => {
  const known = await headOf(work, former)
  return known === null || known.length === 0 ? { isSame: false, parts } : beginningWith(known, parts)
}

/** Exported for tests. */
export const beginningWith = async (known: Buffer, parts: LandedParts): Promise<Beginning> => {
  const first = await parts.next()
  if (first.done === true) return { isSame: false, parts: handedOn(first, parts) }
  const body = first.value.body[Symbol.asyncIterator]()
  const { isSame, read } = await compare(body, known)
  return { isSame, parts: handedOn({ done: false, value: { ...first.value, body: rejoined(read, body) } }, parts) }
}

const compare = async (
  body: AsyncIterator<Uint8Array>,
  known: Buffer,
): Promise<{ readonly isSame: boolean; readonly read: readonly Uint8Array[] }> => {
  const read: Uint8Array[] = []
  for (let at = 0; at < known.length; ) {
    const next = await body.next()
    if (next.done === true) return { isSame: false, read }
    read.push(next.value)
    const expected = known.subarray(at, at + next.value.length)
    if (!expected.equals(next.value.subarray(0, expected.length))) return { isSame: false, read }
    at += next.value.length
  }
  return { isSame: true, read }
}

async function* rejoined(read: readonly Uint8Array[], body: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* read
    for (let next = await body.next(); next.done !== true; next = await body.next()) yield next.value
  } finally {
    await body.return?.()
  }
}

async function* handedOn(first: Awaited<ReturnType<LandedParts['next']>>, parts: LandedParts): LandedParts {
  if (first.done === true) return first.value
  yield first.value
  return yield* parts
}

/** The first bytes of its first part; null: they cannot be had, which is no reason not to load the new answer. */
const headOf = async (
  { runtime, claim, signal }: JobWork,
  former: { readonly answerId: number; readonly landing: string },
): Promise<Buffer | null> => {
  try {
    const { parts } = await openAnswer(runtime, former, signal)
    for await (const part of parts()) return await firstBytes(part)
    return null
  } catch (error) {
    signal.throwIfAborted()
    runtime.log.debug({ job_id: claim.jobId, error: messageOf(error) }, 'the loaded answer cannot be read for comparison')
    return null
  }
}

const firstBytes = async ({ body }: Payload): Promise<Buffer> => {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    length += chunk.length
    if (length >= headBytes) break
  }
  return Buffer.concat(chunks).subarray(0, headBytes)
}
