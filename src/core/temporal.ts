// Temporal from the platform, or its polyfill where Node lacks it (Node 24 and older).
import type { Temporal as TemporalTypes } from 'temporal-polyfill'

const native = (globalThis as { Temporal?: typeof TemporalTypes }).Temporal

export const Temporal: typeof TemporalTypes = native ?? (await import('temporal-polyfill')).Temporal
export type { Temporal as TemporalTypes } from 'temporal-polyfill'
