// Pseudo-random numbers without state: they depend only on their arguments, so that data is the same in every process.

/** A 32-bit hash of `text` (FNV-1a, finished with `mixBits`). */
export const hashText = (text: string, seed = 0): number => {
  let hash = (0x811c9dc5 ^ seed) | 0
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  return mixBits(hash)
}

/** Spreads the bits of a 32-bit integer; a bijection. */
const mixBits = (value: number): number => {
  let hash = value | 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** A new hash from a hash and a number. */
export const combine = (hash: number, value: number): number => mixBits(Math.imul(hash, 0x9e3779b1) + value)

/** A hash as a number in [0, 1). */
export const unit = (hash: number): number => (hash >>> 0) / 4294967296
