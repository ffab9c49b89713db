// Names of units and boxes: the same window and values always give the same key, different ones never do.
import { createHash } from 'node:crypto'
import type { Box, Slice, Window } from './types.ts'
import { showSpan } from './window.ts'

/** A longer list of values is shown as its length and a digest, which identifies it. */
const longestList = 120

/** `keywords/v1/2026-01/country=us;domain=a.com`. Lists stand in brackets; the order of dimensions and values does not matter. */
export const unitKey = (pipeline: string, version: number, window: Window, slice: Slice): string => {
  const parts = Object.keys(slice)
    .sort()
    .map((name) => `${name}=${shown(slice[name] ?? '')}`)
  return [pipeline, `v${version}`, showSpan(window), ...(parts.length === 0 ? [] : [parts.join(';')])].join('/')
}

const shown = (value: string | readonly string[]): string => {
  if (typeof value === 'string') return escaped(value)
  const values = [...value].sort().map(escaped)
  const all = values.join(',')
  if (all.length <= longestList) return `[${all}]`
  const digest = createHash('sha256').update(all).digest('hex').slice(0, 32)
  return `[${values[0]?.slice(0, 40)}..${values.length}:${digest}]`
}

// Escapes the separators of a key, blanks and control characters, so that a part never contains them.
const escaped = (text: string): string =>
  text.replace(/[%/;=,:[\]\s\p{C}]/gu, (character) =>
    [...new TextEncoder().encode(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  )

/** `window` may span several consecutive windows. */
interface BoxParts extends Pick<Box, 'pipeline' | 'version' | 'window'> {
  readonly dimensions: readonly string[]
  /** For each slice one value of each dimension. Together they must be every combination of those values. */
  readonly slices: readonly (readonly string[])[]
}

/** The box that requests these slices together: a list of values for each dimension, or the single value. */
export const boxOf = ({ pipeline, version, window, dimensions, slices }: BoxParts): Box => {
  const slice = Object.fromEntries(
    dimensions.map((name, place) => {
      const values = [...new Set(slices.map((values) => values[place] ?? ''))].sort()
      const [only, ...others] = values
      return [name, only !== undefined && others.length === 0 ? only : values]
    }),
  )
  return { key: unitKey(pipeline, version, window, slice), pipeline, version, window, slice }
}
