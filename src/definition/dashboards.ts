// Reads dashboard files: YAML that names charts over views of bi, checked with file, line and column.
import { basename } from 'node:path'
import { shipped } from '../core/shipped.ts'
import { type ChartFile, chartOf, type FilterFile, filterOf, measuresOf, schema } from './dashboard.ts'
import { folderFiles } from './folder-files.ts'
import { problemAt, problemsOf, readYaml, type YamlFile } from './yaml-file.ts'
import { assertNoProblems, type Problem } from './problem.ts'

const shippedDashboards = shipped('dashboards')

/** As `readDashboards`. Throws DEFINITION with every problem. */
export const loadDashboards = async (folders: readonly string[]) => assertNoProblems(await readDashboards(folders)).dashboards

/** Dashboards of all folders by name; a later folder's file replaces an earlier one's of the same name. */
export const readDashboards = async (folders: readonly string[]) => {
  const files = new Map((await folderFiles([shippedDashboards, ...folders], /\.yaml$/)).map((one) => [one.name, one]))
  const read = [...files.values()].map(({ file, text }) => parseDashboard(file, text))
  return { dashboards: read.flatMap(({ dashboard }) => dashboard ?? []), problems: read.flatMap(({ problems }) => problems) }
}

/** `dashboard` null: there is at least one problem. Problems have line and column of the YAML. */
export const parseDashboard = (file: string, text: string) => {
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
      /** Part of the dashboard's address. */
      name: basename(file, '.yaml'),
      title: data.dashboard,
      about: data.about,
      filters: data.filters.map(filterOf),
      charts: data.charts.map((one) => chartOf(one, data)),
    }),
  }
}

export type Dashboard = NonNullable<ReturnType<typeof parseDashboard>['dashboard']>

const filterProblems = (one: FilterFile, at: number, charts: readonly ChartFile[], yaml: YamlFile): Problem[] =>
  ('charts' in one ? (one.charts ?? []) : [])
    .filter((name) => !charts.some(({ chart: other }) => other === name))
    .map((name) =>
      problemAt(
        yaml,
        ['filters', at, 'charts'],
        `this dashboard has no chart '${name}'; write a name from one of its lines 'chart:'.`,
      ),
    )

/** Checks that the parts of one chart fit together. */
const chartProblems = (one: ChartFile, at: number, all: readonly ChartFile[], yaml: YamlFile): Problem[] => {
  const problems: Problem[] = []
  const wrong = (part: string, message: string): void => void problems.push(problemAt(yaml, ['charts', at, part], message))
  const measured = Object.keys(measuresOf(one))
  if (one.compare !== undefined && (!['tile', 'trend', 'table'].includes(one.kind) || Object.keys(one.measures).length > 0))
    wrong('compare', "only a tile, a trend or a table without 'measures' takes 'compare'.")
  if (all.findIndex(({ chart: other }) => other === one.chart) < at)
    wrong('chart', `'${one.chart}' appears twice; charts are identified by name, so rename one of them.`)
  if (one.kind !== 'table' && one.period === undefined) wrong('kind', `a ${one.kind} needs 'period', the column on its axis.`)
  if (one.kind === 'trend' && (measured.length !== 1 || one.by.length > 0))
    wrong('kind', "a trend shows one measure and takes no 'by'.")
  if (one.kind === 'tile' && one.by.length > 0) wrong('by', "a tile shows the newest period as a whole and takes no 'by'.")
  const broken = one.kind === 'tile' ? measured.find((label) => /[[\]]/.test(label)) : undefined
  if (broken !== undefined) wrong('measures', `'${broken}' cannot be shown on a tile; name it without [ and ].`)
  if (one.axis !== undefined && one.kind !== 'line') wrong('axis', "only a line has 'axis: rank'.")
  if (one.kind !== 'table' && one.columns.length > 0) wrong('columns', "only a table has 'columns'.")
  if (measured.length === 0 && one.columns.length === 0)
    wrong('kind', "the chart shows nothing; add 'measures' (or 'columns' to a table).")
  if (measured.length > 0 && one.columns.length > 0)
    wrong('columns', "a table has either 'columns' (plain rows) or 'measures'; keep one of the two.")
  const sortable = [...one.columns, ...one.by, ...measured]
  for (const text of Object.keys(one.formats))
    if (one.kind !== 'table' || !sortable.includes(text))
      wrong('formats', `'${text}' is neither a column nor a measure of this table.`)
  for (const text of one.order)
    if (!sortable.includes(text.replace(/ desc$/, '')))
      wrong('order', `'${text}' is neither a column nor a measure of this chart.`)
  return problems
}
