// The account's rate limit as a bucket of tokens: bursts of one second's worth, then a steady trickle.

export interface RateBucket {
  /** Takes a token; otherwise the seconds until there is one. */
  take(perSecond: number | null): { readonly ok: true } | { readonly ok: false; readonly waitSeconds: number }
}

/** @param nowMs a clock that never goes back. */
export const createRateBucket = (nowMs: () => number): RateBucket => {
  let tokens = Number.POSITIVE_INFINITY
  let filledAt = nowMs()
  return {
    take: (perSecond) => {
      if (perSecond === null) return { ok: true }
      const now = nowMs()
      tokens = Math.min(Math.max(1, perSecond), tokens + ((now - filledAt) / 1000) * perSecond)
      filledAt = now
      if (tokens < 1) return { ok: false, waitSeconds: (1 - tokens) / perSecond }
      tokens -= 1
      return { ok: true }
    },
  }
}
