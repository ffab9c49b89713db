// A runtime as far as planning needs one, over sources that only answer probes and prices.
import type { NamedPrice } from '../../src/core/learned-price.ts'
import { setTimeout } from 'node:timers/promises'
import { z } from 'zod'
import { noBudget } from '../../src/core/budget-scope.ts'
import { silentLog } from '../../src/core/log.ts'
import { systemClock } from '../../src/core/clock.ts'
import type { Box, Definition, Fingerprint } from '../../src/core/types.ts'
import type { Source } from '../../src/extract/source.ts'
import type { Service } from '../../src/extract/http.ts'
import { planRun, type PlannedRun, type Scope } from '../../src/plan/plan-run.ts'
import { previewRun } from '../../src/plan/dry-run.ts'
import { createProgress } from '../../src/run/progress.ts'
import { definitionOf, dimension } from '../unit/plan/definition.ts'
import { newRun } from './ledger.ts'
import type { TestDatabase } from './postgres.ts'

export interface SourceChoice {
  readonly kind: Source['kind']
  readonly mostPerRequest?: number
  readonly probe?: (box: Box) => Fingerprint
  readonly price?: number
}

export const sourceOf = ({ kind, mostPerRequest = kind === 'walk' ? 1 : 100, probe, price }: SourceChoice): Source => {
  const spec = { description: '', required: false, mostPerRequest }
  return {
    name: `test.${kind}`,
    kind,
    description: '',
    params: z.record(z.string(), z.string()),
    dimensions: { domain: spec, country: spec },
    packing: { windows: 60 },
    fields: {},
    openFields: true,
    // biome-ignore lint/correctness/useYield: planning never extracts
    extract: async function* () {
      throw new Error('planning extracts nothing')
    },
    ...(probe === undefined ? {} : { probe: async ({ box }: { box: Box }) => probe(box) }),
    estimate: async ({ box }) => {
      const cells = Object.values(box.slice).reduce((total, values) => total * [values].flat().length, 1)
      return { requests: null, rows: null, quota: price === undefined ? null : price * cells }
    },
  }
}

const service: Service = {
  forUnit: () => {
    throw new Error('planning asked for HTTP')
  },
}

const silentService: Service = {
  forUnit: () => ({
    url: () => new URL('http://localhost'),
    origin: 'http://localhost',
    read: () => Promise.reject(new Error('no')),
    download: () => Promise.reject(new Error('no')),
  }),
}

export interface Planning {
  readonly definition: Definition
  readonly source: Source
  /** What a setting says of its price. */
  readonly stated?: NamedPrice
  readonly resubmitUncertain?: boolean
  /** Who said yes to what would wait for approval. */
  readonly approvedBy?: string
}

/** As much of a runtime as planning reads. */
export const runtimeFor = (db: TestDatabase, { source, stated, resubmitUncertain = false, approvedBy }: Planning) => ({
  settings: { raw: {} },
  allowance: () => ({
    requestsPerSecond: 10,
    budget: noBudget,
    prices: new Map(stated === undefined ? [] : [[source.name.split('.').at(-1) ?? '', stated]]),
  }),
  database: db.database,
  sources: new Map([[source.name, source]]),
  service: () => (source.probe === undefined && source.kind === 'walk' ? service : silentService),
  consent: { resubmitUncertain, approvedBy: approvedBy ?? null },
  progress: createProgress(),
  log: silentLog,
  clock: { ...systemClock, sleep: (ms: number) => setTimeout(ms) },
})

/** Plans for a new run of a process that lives. */
export const plan = async (
  db: TestDatabase,
  planning: Planning,
  scope: Scope,
  runId?: number,
): Promise<PlannedRun & { readonly runId: number }> => {
  const run = runId ?? (await newRun(db))
  // What planning does not use is not there.
  const runtime = runtimeFor(db, planning) as unknown as Parameters<typeof planRun>[0]
  return { ...(await planRun(runtime, run, [planning.definition], scope, new AbortController().signal)), runId: run }
}

export const preview = (db: TestDatabase, planning: Planning, scope: Scope) =>
  previewRun(
    runtimeFor(db, planning) as unknown as Parameters<typeof previewRun>[0],
    [planning.definition],
    scope,
    new AbortController().signal,
  )

/** Of several definitions of one source. */
export const previewAll = (db: TestDatabase, source: Source, definitions: readonly Definition[], scope: Scope) =>
  previewRun(
    runtimeFor(db, { source, definition: definitions[0] as Definition }) as unknown as Parameters<typeof previewRun>[0],
    definitions,
    scope,
    new AbortController().signal,
  )

let count = 0

/** A definition of its own name: domains and countries by month, all dimensions in the key. */
export const definitionFor = (
  source: Source,
  lists: { readonly domains: readonly string[]; readonly countries?: readonly string[] },
  window: Partial<Definition['window']> = {},
): Definition => {
  count += 1
  const countries = lists.countries === undefined ? [] : [dimension('country', lists.countries)]
  return {
    ...definitionOf([dimension('domain', lists.domains), ...countries], { from: '2025-01-01', ...window }),
    pipeline: `visits${count}`,
    source: source.name,
    // Else the tests' answers would serve each other.
    params: { test: `visits${count}` },
    key: ['date', 'domain', ...(lists.countries === undefined ? [] : ['country'])],
  }
}

/** The same with other lists. */
export const withLists = (
  definition: Definition,
  lists: { readonly domains: readonly string[]; readonly countries?: readonly string[] },
): Definition => ({
  ...definition,
  dimensions: definition.dimensions.map((one) => ({
    ...one,
    values: one.name === 'domain' ? lists.domains : (lists.countries ?? one.values),
  })),
})

/** A range of months, both ends included. */
export const range = (from: string, to: string, more: Partial<Scope> = {}): Scope => ({
  mode: 'range',
  rangeOf: () => ({ from: `${from}-01`, to: nextMonth(to) }),
  ...more,
})

const nextMonth = (month: string): string => {
  const [year = 0, number = 0] = month.split('-').map(Number)
  return number === 12 ? `${year + 1}-01-01` : `${year}-${String(number + 1).padStart(2, '0')}-01`
}

export const reports = sourceOf({ kind: 'report' })
export const walks = sourceOf({ kind: 'walk' })
export const january = range('2025-01', '2025-01')

/** What is planned for these domains, by reports or page by page. */
export const report = (...domains: string[]): Planning => ({ source: reports, definition: definitionFor(reports, { domains }) })
export const walk = (...domains: string[]): Planning => ({ source: walks, definition: definitionFor(walks, { domains }) })

/** As `--only domain=…` narrows a scope. */
export const only = (domain: string) => new Map([['domain', [domain]]])
