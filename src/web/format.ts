// Numbers, times and units of the ledger as people read them.
import { html } from 'hono/html'
import { formatBytes, formatNumber } from '../core/counted.ts'
import type { Html } from './layout.ts'

/** `1,234,567`; a dash where unknown. */
export const count = (value: number | null): string => (value === null ? '–' : formatNumber(value))

/** ISO time as `2026-11-20 02:31 UTC`; where scripts run, assets/live.js shows it in the reader's zone. */
export const timeTag = (iso: string | null): Html | string =>
  iso === null ? '–' : html`<time datetime="${iso}">${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC</time>`

/** A span as `3 d 4 h`, `12 min` or `8 s`. */
export const span = (seconds: number): string => {
  const whole = Math.max(0, Math.round(seconds))
  const of = (size: number): number => Math.floor(whole / size)
  const parts = Object.entries({ d: of(86_400), h: of(3_600) % 24, min: of(60) % 60 }).filter(([, count]) => count > 0)
  const words = parts.slice(0, 2).map(([name, count]) => `${count} ${name}`)
  return words.join(' ') || `${whole} s`
}

/** How long ago: `3 h`, `2 d`. */
export const age = (iso: string, nowMs: number): string => span((nowMs - Date.parse(iso)) / 1000)

/** `1.2 MB`, in thousands; a dash where unknown. */
export const bytes = (value: number | null): string => (value === null ? '–' : formatBytes(value))

/** `YYYY-MM-DD`, `days` before now in UTC. */
export const dayBefore = (nowMs: number, days: number): string => new Date(nowMs - days * 86_400_000).toISOString().slice(0, 10)

/** The last `nights` days up to now in UTC, oldest first. */
export const lastDays = (nowMs: number, nights: number): string[] =>
  Array.from({ length: nights }, (_, place) => dayBefore(nowMs, nights - 1 - place))

/** The address of a pipeline's coverage, or of the page about one of its months. */
export const coverageAddress = (pipeline: string, month?: string): string =>
  `/coverage/${encodeURIComponent(pipeline)}${month === undefined ? '' : `/${month}`}`

export const unitsAddress = (pipeline: string, month: string): string => `/units?${new URLSearchParams({ pipeline, month })}`
