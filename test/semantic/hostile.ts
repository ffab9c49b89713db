// Questions of somebody who wants what they must not have: names and values that would be SQL, other schemas, endless products, wrong
// types. The same seed gives the same questions.
import { z } from 'zod'

/** One call of a tool. */
export interface HostileCall {
  readonly tool: string
  readonly arguments: Record<string, unknown>
}

/** Text that stands in a schema nobody may read; an answer that holds it is a leak. */
export const canary = 'canary-4f1e-of-another-schema'

const poison = [
  `'; drop table bi.keywords; --`,
  `visits) from etl.canary; --`,
  `visits" from etl.canary --`,
  `x' or 1 = 1 --`,
  `' union all select note, note from etl.canary --`,
  `etl.canary`,
  `data.keywords_v1`,
  `pg_catalog.pg_authid`,
  `information_schema.tables`,
  `(select note from etl.canary)`,
  `pg_sleep(60)`,
  `pg_read_file('/etc/passwd')`,
  `current_setting('is_superuser')`,
  `\\'; copy etl.canary to program 'id'; --`,
  `$$; set role postgres; $$`,
  `$1`,
  `__proto__`,
  `constructor`,
  `toString`,
  `\u0000`,
  `${'x'.repeat(5_000)}`,
  `🙂'"\\`,
  `%`,
  `NaN`,
  `-infinity`,
  `../../etc/passwd`,
  `\${jndi:ldap://x}`,
  ``,
] as const

const metrics = [
  'visits',
  'desktop_visitors',
  'clicks',
  'keyword_clicks',
  'keyword_count',
  'revenue',
  'gap_keywords',
  'share_of_voice',
  'rows_restated',
  'run_count',
] as const
const dimensions = [
  'domain',
  'country',
  'keyword',
  'top_url',
  'category_id',
  'month',
  'date',
  'granularity',
  'other_domain',
  'movement',
  'pipeline',
] as const
const periods = ['2025-01', '2025-04', '2025-04-31', '0001-01', '9999-12', '2025-13', 'now()', '2025-01-01; --'] as const
const moments = [
  '2025-05-01T00:00:00Z',
  'now',
  "2025-05-01'; --",
  'infinity',
  '275760-09-13T00:00:00Z',
  '0000-01-01T00:00:00Z',
] as const

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
const randomOf = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** `count` calls of one seed. */
export const hostileCalls = (seed: number, count: number): readonly HostileCall[] => {
  const random = randomOf(seed)
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
  const maybe = (share: number): boolean => random() < share
  const some = <T>(most: number, make: () => T): T[] => Array.from({ length: Math.floor(random() * (most + 1)) }, make)
  const mixed = (list: readonly string[], share = 0.3): unknown => (maybe(share) ? one(poison) : one(list))
  const filter = (): Record<string, unknown> => ({
    dimension: mixed(dimensions, 0.15),
    ...(maybe(0.5) ? { is: maybe(0.5) ? one(poison) : some(150, () => one(poison)) } : {}),
    ...(maybe(0.2) ? { is_not: [one(poison), 'world'] } : {}),
    ...(maybe(0.3) ? { contains: one(poison) } : {}),
    ...(maybe(0.2) ? { at_least: one(poison) } : {}),
    ...(maybe(0.1) ? { raw_sql: one(poison) } : {}),
  })
  const query = (): Record<string, unknown> => ({
    metrics: maybe(0.85) ? [one(metrics), ...some(2, () => mixed(metrics))] : mixed(metrics),
    ...(maybe(0.7) ? { by: some(maybe(0.1) ? 400 : 5, () => mixed(dimensions, 0.2)) } : {}),
    ...(maybe(0.4) ? { grain: mixed(['day', 'month', 'quarter', 'year']) } : {}),
    ...(maybe(0.6) ? { where: some(4, filter) } : {}),
    ...(maybe(0.5) ? { period: { from: one(periods), to: one(periods) } } : {}),
    ...(maybe(0.3) ? { compare: mixed(['previous', 'year']) } : {}),
    ...(maybe(0.2) ? { as_of: one(moments) } : {}),
    ...(maybe(0.3) ? { order: [{ by: mixed([...metrics, ...dimensions]), descending: maybe(0.5) }] } : {}),
    ...(maybe(0.3) ? { limit: one([1, 1_000, 1_000_000, -1, 1e308, 0.5, '1; --']) } : {}),
    ...(maybe(0.1) ? { [one(poison) || 'sql']: 'select * from etl.canary' } : {}),
  })
  const others = (): HostileCall => {
    const tool = one(['list_metrics', 'explain_metric', 'coverage', 'freshness', 'restatements', 'run_sql', 'backfill'])
    const period = { from: one(periods), to: one(periods) }
    const given = {
      metric: one(poison),
      pipeline: one(poison),
      subject: one(poison),
      search: one(poison),
      period,
      sql: one(poison),
    }
    const taken = Object.entries(given).filter(() => maybe(0.4))
    return { tool, arguments: Object.fromEntries(taken) }
  }
  return Array.from({ length: count }, () => (maybe(0.8) ? { tool: 'query_metrics', arguments: query() } : others()))
}

/** What an answer may hold of where it came from. */
export const answerOfTool = z.object({ sql: z.string().optional(), rows: z.array(z.unknown()).optional() })

/** Relations a statement names, by schema: all must be of bi. */
export const foreignRelations = (sql: string): string[] =>
  [...sql.matchAll(/\b(?:from|join)\s+(?!\()("?\w+"?(?:\."?\w+"?)?)/gi)]
    .map(([, name = '']) => name.replaceAll('"', ''))
    .filter((name) => !name.startsWith('bi.'))
