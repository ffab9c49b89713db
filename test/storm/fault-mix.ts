// Seeded mixes of the sandbox's faults. Every kind has its place here; a test compares the list with the sandbox's own.
import type { Fault, FaultKind } from '../../src/sandbox/fault-kinds.ts'

/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
export const randomFrom = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/**
 * `transientCodes`: asking again, with the consent the definition gives, brings the right answer. `bought`: what was bought is bad for good, and stays bad. `lie`: an answer
 * in every respect as an honest one; only what was loaded before can raise suspicion. `stuck`: the report is never finished.
 */
export type FaultClass = 'passing' | 'bought' | 'lie' | 'stuck'

export const faultClasses: Readonly<Record<FaultKind, FaultClass>> = {
  slow: 'passing',
  stall: 'passing',
  'status-429': 'passing',
  'status-500': 'passing',
  'status-502': 'passing',
  'status-503': 'passing',
  'any-status': 'passing',
  'drop-before': 'passing',
  'drop-reply': 'passing',
  'reset-mid-body': 'passing',
  'truncate-body': 'passing',
  'html-200': 'passing',
  'malformed-json': 'passing',
  'bad-gzip': 'passing',
  'key-refused': 'passing',
  'quota-exhausted': 'passing',
  'country-refused': 'passing',
  'count-drift': 'passing',
  'last-updated-drift': 'passing',
  'row-moves': 'passing',
  'repeated-page': 'passing',
  'short-page': 'passing',
  'clamped-limit': 'passing',
  'wrong-echo': 'passing',
  'report-failed': 'passing',
  'report-rejected': 'passing',
  'report-retry': 'passing',
  'unknown-status-word': 'passing',
  'done-without-link': 'passing',
  'expired-link': 'passing',
  'quoted-newline': 'passing',
  'duplicate-rows': 'passing',
  'wrong-content-type': 'passing',
  'key-echo': 'passing',
  'half-report': 'bought',
  'missing-row': 'bought',
  'extra-row': 'bought',
  'cut-line-end': 'bought',
  'bad-number': 'bought',
  'short-row': 'bought',
  'unclosed-quote': 'bought',
  'nul-bytes': 'bought',
  'conflicting-rows': 'bought',
  'no-data': 'lie',
  'empty-report': 'lie',
  'report-stuck': 'stuck',
}

const kinds = Object.keys(faultClasses) as FaultKind[]

/** The forms in which a kind appears. */
const formsOf = (kind: FaultKind): readonly Fault[] => {
  if (kind === 'slow') return [{ kind, delayMs: 300 }]
  if (kind === 'status-429' || kind === 'status-503')
    return (['none', 'seconds', 'date'] as const).map((retryAfter) => ({ kind, retryAfter, retryAfterSeconds: 1 }))
  if (kind === 'truncate-body')
    return (['length', 'chunked', 'silent'] as const).flatMap((mode) => [
      { kind, mode },
      { kind, mode, on: 'download' as const },
    ])
  if (kind === 'clamped-limit') return [{ kind, limit: 7 }]
  if (kind === 'key-echo') return [{ kind }, { kind, on: 'submit' }]
  if (kind === 'row-moves') return [{ kind }, { kind, by: -1 }]
  if (kind === 'count-drift') return [{ kind }, { kind, by: -2 }]
  if (kind === 'report-failed') return [{ kind }, { kind, mends: false }]
  if (kind === 'expired-link') return ([403, 404, 410] as const).map((status) => ({ kind, status }))
  if (['reset-mid-body', 'drop-reply', 'bad-gzip', 'html-200', 'drop-before'].includes(kind))
    return [{ kind }, { kind, on: 'download' }, { kind, on: 'status' }]
  return [{ kind }]
}

/** Those that stop the whole process for a second each, or a slot for one, are rarer. */
const costly = new Set<FaultKind>(['status-429', 'stall', 'slow', 'quota-exhausted'])

/** Of a kind and form in each command. */
const fewest = 2

export interface MixOptions {
  readonly random: () => number
  /** Faults of these classes. */
  readonly classes: readonly FaultClass[]
  /** About how many requests a command sends; what must not happen often is spread over them. */
  readonly jobs: number
}

/** A list in which every kind of the classes appears, each in a seeded form, place in the list, and share of the requests. */
export const faultMix = ({ random, classes, jobs }: MixOptions): Fault[] => {
  const some = (fault: Fault): Fault => {
    if (faultClasses[fault.kind] === 'stuck' || faultClasses[fault.kind] === 'lie')
      return { ...fault, nth: 1 + Math.floor(random() * Math.max(1, jobs / 20)), times: 1 }
    const share = costly.has(fault.kind) ? 0.003 : 0.004 + random() * 0.012
    // Each answer 429 is taken for the limit of the service, which is kept to for an hour: one that refuses at random is asked ever more slowly.
    const times = fault.kind === 'status-429' ? fewest : Math.max(fewest, Math.ceil(jobs / 20))
    return { ...fault, probability: share, times }
  }
  const faults = kinds.filter((kind) => classes.includes(faultClasses[kind])).flatMap(formsOf)
  return faults
    .map((fault) => ({ fault: some(fault), at: random() }))
    .sort((left, right) => left.at - right.at)
    .map(({ fault }) => fault)
}
