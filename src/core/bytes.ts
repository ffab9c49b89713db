// Comparing a few bytes, where a call out of JavaScript would cost more than the comparison.

/** Whether `[start, end)` of `bytes` holds the same as `other`. */
export const isSame = (bytes: Buffer, start: number, end: number, other: Buffer): boolean => {
  if (end - start !== other.length) return false
  for (let at = 0; at < other.length; at += 1) if (bytes[start + at] !== other[at]) return false
  return true
}
