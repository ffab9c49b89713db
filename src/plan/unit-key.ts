// A unit's name: the same window and slice always give the same key, different ones never do.
import { createHash } from 'node:crypto'
import type { Slice, Window } from '../core/types.ts'
import { showWindow } from '../core/window.ts'

// Keys are read by people and stand in an index of PostgreSQL, whose entries must stay under 2.7 kB.
const longestBucket = 120

/** `keywords/v1/2026-01/country=us;domain=a.com`. Buckets stand in brackets; the order of dimensions and values does not matter. */
export const unitKey = (pipeline: string, version: number, window: Window, slice: Slice): string => {
  const parts = Object.keys(slice)
    .sort()
    .map((name) => `${name}=${shown(slice[name] ?? '')}`)
  return [pipeline, `v${version}`, showWindow(window), ...(parts.length === 0 ? [] : [parts.join(';')])].join('/')
}

const shown = (value: string | readonly string[]): string => {
  if (typeof value === 'string') return escaped(value)
  const values = [...value].sort().map(escaped)
  const all = values.join(',')
  if (all.length <= longestBucket) return `[${all}]`
  const digest = createHash('sha256').update(all).digest('hex').slice(0, 32)
  return `[${values[0]?.slice(0, 40)}..${values.length}:${digest}]`
}

// What separates parts of a key never stands inside one; neither do blanks and control characters.
const escaped = (text: string): string =>
  text.replace(/[%/;=,:[\]\s\p{C}]/gu, (character) =>
    [...new TextEncoder().encode(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  )
