// How long an answer may take as a whole: one that drips is as good as none.
import { EtlError } from '../core/errors.ts'

/** Twice what may pass without a byte, and a second more for each 16 KiB that came. */
const timeouts = 2
/** A busy machine hears of bytes this late. */
const leastMs = 2_000
const slowestBytesPerSecond = 16 * 1024

/** What is watched. */
export interface AnswerTime {
  /** What may pass without a byte, milliseconds. */
  readonly timeoutMs: number
  /** For messages: address without query. */
  readonly where: string
}

/** Called with the bytes of each piece as it comes; an error where all of them together came too slowly. */
export const watchAnswer = ({ timeoutMs, where }: AnswerTime): ((bytes: number) => EtlError | null) => {
  const from = performance.now()
  let total = 0
  return (bytes) => {
    total += bytes
    const tookMs = performance.now() - from
    if (tookMs <= Math.max(leastMs, timeouts * timeoutMs) + (total / slowestBytesPerSecond) * 1_000) return null
    const message = `${where}: the answer drips: ${total} bytes in ${Math.round(tookMs / 1_000)} s. It was not read on. If the service is slow, raise limits.timeout.`
    return new EtlError('SERVICE_TIMEOUT', message, { context: { sent: true, network: '' } })
  }
}
