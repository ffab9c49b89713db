// What one report may ask for, where limits are switched on: each is refused for certain, by name, and nothing is bought.
import type { Settings } from './options.ts'
import type { ReportQuery, TableQuery } from './report-query.ts'

type Limits = Pick<Settings, 'mostValues' | 'mostMonths' | 'mostCells' | 'refusedDomains' | 'refusedMonths'>

/** One text for each limit the request goes beyond; none: it may be made. */
export const limitErrors = (query: ReportQuery, limits: Limits): string[] => [
  ...query.tables.flatMap((table) => [...tooMany(query, table, limits), ...notThere(table, limits)]),
  ...tooLarge(query, limits),
]

const tooMany = ({ kind }: ReportQuery, { domains, places, dates }: TableQuery, { mostValues, mostMonths }: Limits): string[] => {
  const beyond = (name: string, count: number, most: number | null): string[] =>
    most === null || count <= most ? [] : [`${name}: ${count} are asked for, at most ${most} go into one report`]
  return [
    ...beyond('domains', domains.length, mostValues),
    ...beyond(kind === 'shopper' ? 'category_ids' : 'countries', places.length, mostValues),
    ...beyond('months', monthsOf(dates).length, mostMonths),
  ]
}

const monthsOf = (dates: readonly string[]): string[] => [...new Set(dates.map((date) => date.slice(0, 7)))]

const notThere = ({ domains, dates }: TableQuery, { refusedDomains, refusedMonths }: Limits): string[] => [
  ...domains.filter((name) => refusedDomains.includes(name)).map((name) => `domains: '${name}' is not known`),
  ...monthsOf(dates)
    .filter((name) => refusedMonths.includes(name))
    .map((name) => `start_date: there is no data for ${name}`),
]

const tooLarge = ({ tables }: ReportQuery, { mostCells }: Limits): string[] => {
  const cells = tables.reduce((sum, { domains, places, dates }) => sum + domains.length * places.length * dates.length, 0)
  return mostCells === null || cells <= mostCells ? [] : [`The report has ${cells} cells, at most ${mostCells} are made at once`]
}
