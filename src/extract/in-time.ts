// How long a process that is to stop waits for the ledger to take what only it knows.
import type { SourceContext } from './source.ts'

/** Once it is to stop: most databases take it in milliseconds. */
const lastMs = 2_000

/** What `inTime` throws: the server may still carry the statement out by itself. */
export const leftBehind = new Error('the ledger has not answered yet')

/** Waits for the ledger, also when stopped, but then not for as long as somebody locks the job's row. Throws `leftBehind`. */
export const inTime = async <T>({ signal, clock }: Pick<SourceContext, 'signal' | 'clock'>, written: Promise<T>): Promise<T> => {
  const answered = new AbortController()
  const stop = AbortSignal.any([signal, answered.signal])
  const late = (async (): Promise<T> => {
    if (!stop.aborted) await new Promise((resolve) => stop.addEventListener('abort', resolve, { once: true }))
    if (!answered.signal.aborted) await clock.sleep(lastMs, answered.signal).catch(() => undefined)
    if (!answered.signal.aborted) throw leftBehind
    return written
  })()
  written.catch(() => undefined)
  late.catch(() => undefined)
  return Promise.race([written, late]).finally(() => answered.abort())
}
