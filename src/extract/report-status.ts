// The service's words for a report's state, folded to what they mean (interface 3; spellings seen in the wild).

export type ReportPhase = 'open' | 'done' | 'failed' | 'rejected'

const done = new Set(['complete', 'completed', 'success', 'ready'])
const failed = new Set(['internal_error', 'failed', 'error'])
const rejected = new Set(['bad_request'])
const open = new Set(['pending', 'processing', 'in_progress', 'queued', 'retry'])

const fold = (word: string): string => word.trim().toLowerCase().replaceAll(/\s+/g, '_')

/** Case does not count and a space is an underscore. A word nobody knows is an open report: the deadline ends it, not a guess. */
export const foldStatus = (word: string): ReportPhase => {
  const folded = fold(word)
  if (done.has(folded)) return 'done'
  if (failed.has(folded)) return 'failed'
  return rejected.has(folded) ? 'rejected' : 'open'
}

export const isKnownStatus = (word: string): boolean => [done, failed, rejected, open].some((words) => words.has(fold(word)))
