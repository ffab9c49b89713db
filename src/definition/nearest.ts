// "Did you mean": the valid spelling nearest to the one found.
import { closest, distance } from 'fastest-levenshtein'

/** The candidate nearest to `word`, or null when none is near enough to be what was meant. */
export const nearest = (word: string, candidates: readonly string[]): string | null => {
  if (candidates.length === 0) return null
  const found = closest(word.toLowerCase(), candidates)
  const near = distance(word.toLowerCase(), found.toLowerCase())
  return near <= Math.max(2, Math.floor(Math.max(word.length, found.length) / 3)) ? found : null
}

/** ` Did you mean 'x'?` or, where nothing is near, ` Known: a, b, c.` */
export const suggest = (word: string, candidates: readonly string[]): string => {
  const found = nearest(word, candidates)
  if (found !== null) return ` Did you mean '${found}'?`
  if (candidates.length === 0) return ''
  const shown = candidates.slice(0, 12).join(', ')
  return ` Known: ${shown}${candidates.length > 12 ? ', ...' : ''}.`
}
