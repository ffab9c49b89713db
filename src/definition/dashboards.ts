// Reads dashboard files: YAML that names charts over views of bi, checked with file, line and column. A tile over a comparison (bi.*_comparison) gets its
// figures here: the newest one, and its change over rows that have the measure in both months.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { z } from 'zod'
import { shipped } from '../core/shipped.ts'
import type { Chart, Dashboard, DashboardFilter } from './dashboard.ts'
import { problemsOf } from './issues.ts'
import { assertNoProblems, type Problem } from './problem.ts'
import { readYaml, type YamlFile } from './yaml-file.ts'

/** What a tile compares: columns of the view that have a twin `X_before`, or sums and differences of such; and `over` which column's values it says how many are compared. */
const comparedSchema = z.strictObject({
  of: z.string().regex(/^[a-z_][a-z0-9_]*( [+-] [a-z_][a-z0-9_]*)*$/, 'columns of the view, added or subtracted'),
  per: z
    .string()
    .regex(/^[a-z_][a-z0-9_]*( [+-] [a-z_][a-z0-9_]*)*$/, 'columns of the view, added or subtracted')
    .optional(),
  over: z.string().regex(/^[a-z_][a-z0-9_]*$/, 'a column of the view'),
  as: z.enum(['count', 'money', 'decimal', 'share']).default('count'),
  digits: z.int().min(0).max(4).default(1),
  show: z
    .array(z.enum(['Value', 'Month', 'Before', 'Year', 'Compared']))
    .min(1, 'at least one text')
    .optional(),
})

/** A share changes by percentage points, everything else by per cent. */
type Compared = z.output<typeof comparedSchema>

const before = (expression: string): string => expression.replaceAll(/[a-z_][a-z0-9_]*/g, '$&_before')
const known = (...expressions: readonly string[]): string => expressions.map((one) => `(${one}) is not null`).join(' and ')

/** Measures in their order, by label. */
const comparedMeasures = ({ of, per, over, as, digits, show }: Compared): Readonly<Record<string, string>> => {
  const parts = per === undefined ? [of] : [of, per]
  const both = known(...parts, ...parts.map(before))
  const figure = (spell: (expression: string) => string, back: number, where: string): string =>
    figureOf(parts.map(spell), `months_back = ${back} and ${where}`)
  const value = figure((one) => one, 1, known(...parts))
  const written = {
    count: `to_char(${value}, 'FM999,999,999,999')`,
    money: `'$' || to_char(${value}, 'FM999,999,999,999')`,
    decimal: `to_char(${value}, 'FM990.00')`,
    share: `to_char(100 * ${value}, 'FM990.${'0'.repeat(digits)}') || ' %'`,
  }[as]
  const change = (back: number, than: string): string => {
    const [now, then] = [figure((one) => one, back, both), figure(before, back, both)]
    const text =
      as === 'share'
        ? `to_char(100 * (${now} - ${then}), 'FMSG990.${'0'.repeat(digits)}') || ' percentage points on ${than}'`
        : `to_char(100 * ((${now}) / nullif(${then}, 0) - 1), 'FMSG999,999,999,990.0') || ' % on ${than}'`
    return `coalesce(${text}, 'nothing to compare with ${than}')`
  }
  const rows = (where: string): string => `count(*) filter (where months_back = 1 and loaded_in = '${where}')`
  const texts = {
    Value: written,
    Month: "to_char(max(month), 'FMMonth YYYY')",
    Before: change(1, 'the month before'),
    Year: change(12, 'the same month last year'),
    Compared:
      `count(distinct ${over}) filter (where months_back = 1 and ${both}) || ' of ' || count(distinct ${over}) || ' ${over}s compared' || ` +
      `case when ${rows('before')} + ${rows('now')} > 0 then '; rows only before: ' || ${rows('before')} || ', only now: ' || ${rows('now')} else '' end`,
  }
  return Object.fromEntries(Object.entries(texts).filter(([label]) => show?.some((one) => one === label) ?? true))
}

/**
 * The newest month's figure, and each earlier month's as it would be with the slices of the newest: divided by the growth since, month by month, over rows that
 * both months have. So the change of two neighbours is like for like. NULL before a month that cannot be compared with the one before it.
 */
const comparedTrend = ({ of, per }: Compared): Readonly<Record<string, string>> => {
  const parts = per === undefined ? [of] : [of, per]
  const both = known(...parts, ...parts.map(before))
  const [value, now, then] = [figureOf(parts, known(...parts)), figureOf(parts, both), figureOf(parts.map(before), both)]
  const growth = `(${now})::numeric / nullif(${then}, 0)`
  const later = 'over (order by max(month) desc rows between unbounded preceding and 1 preceding)'
  return {
    Newest:
      `case when not coalesce(bool_or(nullif(${growth}, 0) is null) ${later}, false) ` +
      `then first_value(${value}) over (order by max(month) desc) / exp(coalesce(sum(ln(nullif(${growth}, 0))) ${later}, 0)) end`,
  }
}

/** A sum, or one sum divided by another. */
const figureOf = (parts: readonly string[], where: string): string => {
  const [above = '', below] = parts.map((one) => `sum(${one}) filter (where ${where})`)
  return below === undefined ? above : `${above} / nullif(${below}, 0)`
}

/** Folder of the dashboards that come with the program. */
export const shippedDashboards = shipped('dashboards')

const name = z.string().regex(/^[a-z][a-z0-9_]{0,62}$/, 'a name of lower-case letters, digits and _')
/** Superset would read it as a template, in SQL and in the texts of a tile. */
const notTemplate = [
  (text: string): boolean => !/\{[{%#]/.test(text),
  "no '{{', '{%' or '{#', which Superset takes for a template",
] as const
const words = z
  .string()
  .min(1, 'some words')
  .max(250, 'at most 250 characters')
  .refine(...notTemplate)
const names = z.array(name).default([])

const format = z.enum(['count', 'decimal', 'share', 'change', 'points', 'money'])

const measure = z
  .string()
  .min(1, 'some SQL')
  .max(1_000, 'at most 1,000 characters')
  .refine(...notTemplate)

const chart = z.strictObject({
  chart: words,
  about: z.string().default(''),
  pipeline: name.optional(),
  view: name,
  kind: z.enum(['trend', 'tile', 'line', 'bar', 'table']),
  period: name.optional(),
  measures: z.record(words, measure).default({}),
  compare: comparedSchema.optional(),
  by: names,
  columns: names,
  order: z.array(z.string().regex(/^.+?( desc)?$/, "a column or measure, with 'desc' for the largest first")).default([]),
  rows: z.int().min(1).max(10_000).default(1_000),
  where: words.optional(),
  never_across: names,
  format: format.default('count'),
  axis: z.literal('rank').optional(),
  formats: z.record(words, format).default({}),
  width: z.int().min(2, 'from 2 to 12 columns').max(12, 'from 2 to 12 columns').default(6),
  height: z.int().min(10, 'from 10 to 200').max(200, 'from 10 to 200').default(50),
})

const valueFilter = z.strictObject({
  filter: words,
  view: name,
  column: name,
  one: z.enum(['first', 'last']).optional(),
  charts: z.array(words).min(1, 'at least one chart').optional(),
})
const timeFilter = z.strictObject({ filter: words, time: z.literal(true) })

const schema = z.strictObject({
  dashboard: words,
  pipeline: name.optional(),
  about: z.string().default(''),
  never_across: names,
  filters: z.array(z.union([timeFilter, valueFilter])).default([]),
  charts: z.array(chart).min(1, 'at least one chart'),
})

type ChartFile = z.infer<typeof chart>

/** As `readDashboards`. Throws DEFINITION with every problem. */
export const loadDashboards = async (folders: readonly string[]): Promise<readonly Dashboard[]> => {
  const { dashboards, problems } = await readDashboards(folders)
  assertNoProblems(problems)
  return dashboards
}

/** Dashboards of all folders by name; a later folder's file replaces an earlier one's of the same name. */
export const readDashboards = async (folders: readonly string[]): Promise<{ dashboards: Dashboard[]; problems: Problem[] }> => {
  const files = new Map<string, string>()
  for (const folder of new Set([shippedDashboards, ...folders])) {
    if (!existsSync(folder)) continue
    for (const file of (await readdir(folder)).filter((one) => one.endsWith('.yaml')).sort()) files.set(file, join(folder, file))
  }
  const dashboards: Dashboard[] = []
  const problems: Problem[] = []
  for (const file of files.values()) {
    const read = parseDashboard(file, await readFile(file, 'utf8'))
    if (read.dashboard !== null) dashboards.push(read.dashboard)
    problems.push(...read.problems)
  }
  return { dashboards, problems }
}

/** null with at least one problem; problems have line and column of the YAML. */
export const parseDashboard = (file: string, text: string): { dashboard: Dashboard | null; problems: readonly Problem[] } => {
  const { yaml, problems } = readYaml(file, text)
  if (yaml === null) return { dashboard: null, problems }
  const checked = schema.safeParse(yaml.value)
  if (!checked.success) return { dashboard: null, problems: [...problems, ...problemsOf(checked.error.issues, schema, yaml)] }
  const { data } = checked
  const wrong = [
    ...data.charts.flatMap((one, at) => chartProblems(one, at, data.charts, yaml)),
    ...data.filters.flatMap((one, at) => filterProblems(one, at, data.charts, yaml)),
  ]
  return {
    problems: [...problems, ...wrong],
    dashboard: Object.freeze({
      file,
      name: basename(file, '.yaml'),
      title: data.dashboard,
      about: data.about,
      filters: data.filters.map(filterOf),
      charts: data.charts.map((one) => chartOf(one, data)),
    }),
  }
}

type FilterFile = z.infer<typeof valueFilter> | z.infer<typeof timeFilter>

const filterOf = (one: FilterFile): DashboardFilter =>
  'time' in one
    ? { kind: 'time', name: one.filter }
    : { kind: 'value', name: one.filter, view: one.view, column: one.column, one: one.one ?? null, charts: one.charts ?? null }

const filterProblems = (one: FilterFile, at: number, charts: readonly ChartFile[], yaml: YamlFile): Problem[] =>
  ('charts' in one ? (one.charts ?? []) : [])
    .filter((name) => !charts.some(({ chart: other }) => other === name))
    .map((name) => ({
      file: yaml.file,
      ...yaml.place(['filters', at, 'charts']),
      message: `'${name}' is no chart of this dashboard; write the name that its line 'chart:' has.`,
    }))

/** Of a tile that compares they are made: each compares in the same way. */
const measuresOf = ({ kind, compare, measures }: ChartFile): Readonly<Record<string, string>> =>
  compare === undefined ? measures : kind === 'trend' ? comparedTrend(compare) : comparedMeasures(compare)

const chartOf = (one: ChartFile, { pipeline, never_across: neverAcross }: z.infer<typeof schema>): Chart => ({
  name: one.chart,
  about: one.about,
  pipeline: one.pipeline ?? pipeline ?? null,
  view: one.view,
  kind: one.kind,
  period: one.period ?? null,
  measures: new Map(Object.entries(measuresOf(one))),
  by: one.by,
  columns: one.columns,
  order: one.order.map((text) => ({ name: text.replace(/ desc$/, ''), descending: text.endsWith(' desc') })),
  // One row and room for another, else Superset warns that a limit was reached.
  rows: one.kind === 'tile' ? (one.compare === undefined ? 1 : 2) : one.rows,
  where:
    one.where ??
    (one.compare === undefined ? null : one.kind === 'trend' ? 'months_back = 1' : 'months_back in (1, 12) and is_newest'),
  neverAcross: [...new Set([...neverAcross, ...one.never_across])],
  format: one.compare?.as ?? one.format,
  isRank: one.axis === 'rank',
  formats: new Map(Object.entries(one.formats)),
  width: one.width,
  height: one.height,
})

/** What the parts of one chart must be to each other. */
const chartProblems = (one: ChartFile, at: number, all: readonly ChartFile[], yaml: YamlFile): Problem[] => {
  const problems: Problem[] = []
  const wrong = (part: string, message: string): void => {
    problems.push({ file: yaml.file, ...yaml.place(['charts', at, part]), message })
  }
  const measured = Object.keys(measuresOf(one))
  if (one.compare !== undefined && (!['tile', 'trend'].includes(one.kind) || Object.keys(one.measures).length > 0))
    wrong('compare', "only a tile or a trend has 'compare', and takes no 'measures' beside it.")
  if (all.findIndex(({ chart: other }) => other === one.chart) < at)
    wrong('chart', `'${one.chart}' appears twice; a chart is known by its name, so give one of them another.`)
  if (one.kind !== 'table' && one.period === undefined) wrong('kind', `a ${one.kind} needs 'period', the column on its axis.`)
  if (one.kind === 'trend' && (measured.length !== 1 || one.by.length > 0))
    wrong('kind', "a trend shows one measure and takes no 'by'.")
  if (one.kind === 'tile' && one.by.length > 0) wrong('by', "a tile shows the newest period as a whole and takes no 'by'.")
  const broken = one.kind === 'tile' ? measured.find((label) => /[[\]]/.test(label)) : undefined
  if (broken !== undefined) wrong('measures', `'${broken}' cannot be shown on a tile; name it without [ and ].`)
  if (one.axis !== undefined && one.kind !== 'line') wrong('axis', "only a line has 'axis: rank'.")
  if (one.kind !== 'table' && one.columns.length > 0) wrong('columns', "only a table has 'columns'.")
  if (measured.length === 0 && one.columns.length === 0)
    wrong('kind', "it shows nothing; add 'measures' (or 'columns' to a table).")
  if (measured.length > 0 && one.columns.length > 0)
    wrong('columns', "rows as they are ('columns') have no 'measures'; keep one of the two.")
  const sortable = [...one.columns, ...one.by, ...measured]
  for (const text of Object.keys(one.formats))
    if (one.kind !== 'table' || !sortable.includes(text))
      wrong('formats', `'${text}' is neither a column nor a measure of this table.`)
  for (const text of one.order)
    if (!sortable.includes(text.replace(/ desc$/, '')))
      wrong('order', `'${text}' is neither a column nor a measure of this chart.`)
  return problems
}
