// The service's words for a report's state, folded to what they mean (interface 3; spellings seen in the wild).

export type ReportPhase = 'open' | 'done' | 'failed' | 'rejected'

const done = new Set(['complete', 'completed', 'success', 'succeeded', 'ready', 'done', 'finished'])
const failed = new Set(['internal_error', 'failed', 'failure', 'error', 'cancelled', 'canceled', 'expired'])
const rejected = new Set(['bad_request', 'rejected', 'invalid', 'invalid_request'])

/** Case does not count and a space is an underscore. A word nobody knows is an open report: the deadline ends it, not a guess. */
export const foldStatus = (word: string): ReportPhase => {
  const folded = word
    .trim()
    .toLowerCase()
    .replaceAll(/[\s-]+/g, '_')
  if (done.has(folded)) return 'done'
  if (failed.has(folded)) return 'failed'
  return rejected.has(folded) ? 'rejected' : 'open'
}
