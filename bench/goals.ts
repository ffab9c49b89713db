// What Millrace promises about speed: each row of the table, its goal, and what it must never be worse than.

/** How a value is shown and judged; `share` is better when larger, all others when smaller. */
export type Measure = 'ratio' | 'milliseconds' | 'seconds' | 'megabytes' | 'growth' | 'share' | 'exponent' | 'count'

export interface Goal {
  readonly id: string
  readonly work: string
  readonly measure: Measure
  readonly goal: number
  readonly limit: number
}

const goal = (id: string, work: string, measure: Measure, value: number, limit: number): Goal => ({
  id,
  work,
  measure,
  goal: value,
  limit,
})

export const goals = [
  goal('filled', 'first load of a report, into a month that holds other rows', 'ratio', 0.9, 1.2),
  goal('empty', 'first load of a report, into an empty month', 'ratio', 1.8, 2.4),
  goal('unchanged', 'the same report again, nothing changed', 'ratio', 1.8, 2.2),
  goal('same-body', 'the same bytes again: only the download', 'ratio', 0.5, 0.8),
  goal('restated', '1 % of rows restated', 'ratio', 1.4, 1.7),
  goal('backfill', '12 reports of a fifth of the rows, one backfill', 'ratio', 1, 1.3),
  goal('months', '36 windows in one answer, first load', 'ratio', 1, 1.3),
  goal('keywords', 'keywords in 500 pages, 0 ms a page', 'ratio', 1.8, 2.5),
  goal('keywords-50ms', 'keywords in 500 pages, 50 ms a page, 8 at once', 'ratio', 1.2, 1.4),
  goal('rate', 'keywords: share of the allowed 10 requests per second that is used, without any 429', 'share', 0.97, 0.95),
  goal('tiny', 'very small units: time per unit, without its requests', 'milliseconds', 6, 9),
  goal('memory', 'peak memory of the process while it loads the report', 'megabytes', 130, 170),
  goal('memory-growth', 'peak memory with ten times the rows, relative to that with the usual number', 'growth', 1.1, 1.1),
  goal('status', 'start of `millrace status`', 'seconds', 0.35, 0.5),
  goal('full-warehouse', 'rows a second into a full warehouse, compared with an empty one', 'share', 0.8, 0.6),
  goal('cost-rows', 'cost as rows grow (exponent)', 'exponent', 1.05, 1.05),
  goal('cost-units', 'cost as units grow (exponent)', 'exponent', 1.05, 1.05),
  goal('night-reports', 'a night that finds nothing new, with 7.2 million loaded units of reports', 'seconds', 5, 5),
  goal('night-walks', 'the same over as many walks', 'seconds', 5, 5),
  goal('night-memory', 'peak memory of such a night', 'megabytes', 250, 250),
  goal('night-requests', 'requests of such a night', 'count', 5, 5),
  goal('night-status', '`millrace status` over these units', 'seconds', 1, 1),
  goal('night-overview', 'the status page over these units: overview and search, 95th percentile', 'milliseconds', 100, 100),
  goal('plan-reports', 'planning 1,000,000 new units that come in reports', 'seconds', 60, 60),
  goal('plan-walks', 'planning 1,000,000 new units that come in pages', 'seconds', 60, 60),
  goal('plan-memory', 'peak memory while planning them', 'megabytes', 300, 300),
  goal('price-time', '`millrace plan` over 100,000 units of reports that were never loaded', 'seconds', 30, 30),
  goal('price-requests', 'free requests it asks for prices', 'count', 50, 50),
  goal('packed-reports', 'reports of 1,000 domains x 3 countries x 36 months', 'count', 10, 12),
  goal('packed-credits', 'their credits against the price of the cells', 'ratio', 1, 1),
  goal(
    'packed-wall',
    'their time against a report for 100 domains, a country and a month each, at 30 s a report',
    'ratio',
    0.1,
    0.1,
  ),
  goal('packed-memory', 'peak memory of loading them', 'megabytes', 200, 200),
  goal('wide-memory', 'peak memory of one report of 40,000 domains', 'megabytes', 200, 200),
] as const satisfies readonly Goal[]

export type GoalId = (typeof goals)[number]['id']

export const meets = ({ measure }: Goal, value: number, bound: number): boolean =>
  measure === 'share' ? value >= bound : value <= bound

const units: Readonly<Record<Measure, (value: number) => string>> = {
  ratio: (value) => `${value.toFixed(2)} x`,
  growth: (value) => `${value.toFixed(2)} x`,
  milliseconds: (value) => `${value.toFixed(1)} ms`,
  seconds: (value) => `${value.toFixed(2)} s`,
  megabytes: (value) => `${Math.round(value)} MB`,
  share: (value) => `${(value * 100).toFixed(0)} %`,
  exponent: (value) => value.toFixed(2),
  count: (value) => String(value),
}

export const show = ({ measure }: Goal, value: number): string => units[measure](value)
