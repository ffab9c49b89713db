// Names of units and boxes: the same window and values always give the same key, different ones never do.
import { createHash } from 'node:crypto'
import type { Box, Slice, Unit, Window } from './types.ts'
import { showSpan, showWindow } from './window.ts'

/** Longer lists of values are shown by their number, with a digest that tells them apart. */
const longestList = 120

/** `keywords/v1/2026-01/country=us;domain=a.com`. Lists stand in brackets; the order of dimensions and values does not matter. */
export const unitKey = (pipeline: string, version: number, window: Window, slice: Slice): string =>
  keyOf(pipeline, version, showWindow(window), slice)

/** The same of a span, and of one value or a list of them for each dimension. */
export const spanKey = (pipeline: string, version: number, span: Window, slice: Slice): string =>
  keyOf(pipeline, version, showSpan(span), slice)

const keyOf = (pipeline: string, version: number, window: string, slice: Slice): string => {
  const parts = Object.keys(slice)
    .sort()
    .map((name) => `${name}=${shown(slice[name] ?? '')}`)
  return [pipeline, `v${version}`, window, ...(parts.length === 0 ? [] : [parts.join(';')])].join('/')
}

const shown = (value: string | readonly string[]): string => {
  if (typeof value === 'string') return escaped(value)
  const values = [...value].sort().map(escaped)
  const all = values.join(',')
  if (all.length <= longestList) return `[${all}]`
  const digest = createHash('sha256').update(all).digest('hex').slice(0, 32)
  return `[${values[0]?.slice(0, 40)}..${values.length}:${digest}]`
}

// What separates parts of a key never stands inside one; neither do blanks and control characters.
const escaped = (text: string): string =>
  text.replace(/[%/;=,:[\]\s\p{C}]/gu, (character) =>
    [...new TextEncoder().encode(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  )

export interface BoxParts {
  readonly pipeline: string
  readonly version: number
  /** One window or several consecutive ones. */
  readonly window: Window
  readonly dimensions: readonly string[]
  /** One value of each dimension, for each slice. Together they are every combination of what they hold. */
  readonly slices: readonly (readonly string[])[]
}

/** What slices and a span are when they are asked for together: the values of each dimension, one where there is one. */
export const boxOf = ({ pipeline, version, window, dimensions, slices }: BoxParts): Box => {
  const slice = Object.fromEntries(
    dimensions.map((name, place) => {
      const values = [...new Set(slices.map((values) => values[place] ?? ''))].sort()
      const [only, ...others] = values
      return [name, only !== undefined && others.length === 0 ? only : values]
    }),
  )
  return { key: spanKey(pipeline, version, window, slice), pipeline, version, window, slice }
}

export const unitOf = (
  pipeline: string,
  version: number,
  window: Window,
  dimensions: readonly string[],
  values: readonly string[],
): Unit => {
  const slice = Object.fromEntries(dimensions.map((name, place) => [name, values[place] ?? '']))
  return { key: unitKey(pipeline, version, window, slice), pipeline, version, window, slice }
}
