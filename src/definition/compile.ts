// Turns a file's checked form into a Definition: fills in defaults, resolves references, checks the columns of indexes.
import { validateDetailed } from 'node-cron'
import { isDay } from '../core/cast-cell.ts'
import { columnTypes } from '../core/column-types.ts'
import type { DimensionTable } from '../core/dimension-table.ts'
import { EtlError } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Column, Definition, RowPeriod, Schedule, TableIndex, WindowRule } from '../core/types.ts'
import { addWindows, alignDown } from '../core/window.ts'
import { pipelineNameProblem, resolveColumns } from './columns.ts'
import { readTests } from './data-tests.ts'
import { readDimensions } from './for-each.ts'
import { suggest } from './problem.ts'
import type { RawDefinition, RawIndex } from './schema.ts'
import { placeholderProblem, readParams, type Scope } from './scope.ts'
import type { Path } from './yaml-file.ts'

type Needed = Pick<Definition, 'params' | 'window' | 'key' | 'dimensions'>

/** The span of a row: from the source's period parameter, else the whole window. */
const rowPeriodOf = ({ params, window, key }: Needed, { period }: SourceSpec): RowPeriod => {
  const value = period === undefined ? undefined : params[period.param]
  const every = period?.every[String(value)] ?? window.every
  return { every, isInKey: period !== undefined && key.includes(period.param) }
}

/** Sorted by name, so that loads of all pipelines lock the tables in the same order and never deadlock. */
const dimensionTablesOf = ({ key, dimensions }: Needed, source: SourceSpec): readonly DimensionTable[] =>
  Object.entries(source.dimensionTables ?? {})
    .filter(([column]) => key.includes(column))
    .map(([column, spec]) => ({ ...spec, column, isAskedFor: dimensions.some(({ name }) => name === column) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))

/** null: there is a problem; problems go to the scope. */
export const compile = (raw: RawDefinition, scope: Scope): Definition | null => {
  const before = scope.problems.length
  const wrongName = pipelineNameProblem(raw.pipeline, raw.version)
  if (wrongName !== null) scope.report(['pipeline'], wrongName)
  reportPlaceholders(raw, scope)
  if (raw.report !== undefined && scope.source.kind !== 'report') {
    scope.report(['report'], `${raw.source} buys no reports; remove report.`, 'key')
  }
  const { window, limits, dimensions, params, ...parts } = readParts({ for_each: {}, params: {}, ...raw }, scope)
  if (window === null || limits === null || dimensions === null || params === null) return null
  if (scope.problems.length > before) return null
  const facts = { params, window, key: raw.table.key, dimensions }
  return {
    file: scope.yaml.file,
    pipeline: raw.pipeline,
    version: raw.version,
    description: raw.description,
    source: raw.source,
    params,
    account: raw.account ?? 'default',
    dimensions,
    window,
    ...(raw.successor === undefined ? {} : { successor: raw.successor }),
    ...parts,
    key: raw.table.key,
    limits,
    report: {
      resubmitUncertain: raw.report?.resubmit_uncertain ?? false,
      resubmitFailed: raw.report?.resubmit_failed ?? false,
      dataPoints: raw.report?.data_points ?? 'learn',
      finalNewline: raw.report?.final_newline ?? 'required',
      ...(raw.report?.section === undefined ? {} : { section: raw.report.section }),
    },
    guard: raw.guard,
    tags: raw.tags ?? {},
    expect: expectationOf(raw.expect, window, scope),
    publish: raw.publish ?? true,
    period: rowPeriodOf(facts, scope.source),
    dimensionTables: dimensionTablesOf(facts, scope.source),
  }
}

const reportPlaceholders = (raw: RawDefinition, scope: Scope): void => {
  const wrong = placeholderProblem(raw.description)
  if (wrong !== null) scope.report(['description'], wrong)
  for (const [name, column] of Object.entries(raw.table.columns)) {
    const found = column.description === undefined ? null : placeholderProblem(column.description)
    if (found !== null) scope.report(['table', 'columns', name, 'description'], found)
  }
}

/** Reads and checks the given parts, also where another part is malformed and the whole cannot be compiled. A part is null where it is missing or wrong. */
export const readParts = (raw: Partial<RawDefinition>, scope: Scope) => {
  const window = raw.window === undefined ? null : ending(windowRule(raw.window, scope), raw, scope)
  const schedule = raw.schedule === undefined ? null : scheduleOf(raw.schedule, scope)
  const dimensions = raw.for_each === undefined ? null : readDimensions(raw.for_each, raw.params ?? {}, scope)
  const params = raw.params === undefined ? null : readParams(raw.params, Object.keys(raw.for_each ?? {}), scope)
  const { table, limits = null } = raw
  let columns: readonly Column[] = []
  if (window !== null && params !== null) {
    for (const { path, message } of scope.source.problems?.({ params, window }) ?? []) scope.report(path, message)
    if (dimensions !== null && table !== undefined)
      columns = resolveColumns({ table, params, dimensions, every: window.every }, scope)
  }
  const indexes = table === undefined ? [] : resolveIndexes(table, columns, scope)
  return { window, schedule, limits, dimensions, params, columns, indexes, tests: readTests(raw.tests ?? {}, columns, scope) }
}

const expectationOf = (raw: RawDefinition['expect'], { every, publication }: WindowRule, scope: Scope): Definition['expect'] => {
  if (raw === undefined) return null
  const { month_by: monthBy } = raw
  const path: Path = ['expect', 'month_by']
  if (every !== 'month')
    scope.report(path, `expect.month_by is for windows of a month; window.every is ${every}. Remove expect.`, 'key')
  if (monthBy < (publication.afterDays ?? publication.publishedOn))
    scope.report(
      path,
      `expect.month_by is ${monthBy}, before the service publishes a month (day ${publication.publishedOn}, window.publication.published_on); write a later day.`,
    )
  return { monthBy }
}

/** Adds the end of the table: the end of the month that `until` names. */
const ending = (window: WindowRule, { until, successor }: Partial<RawDefinition>, scope: Scope): WindowRule => {
  if (until === undefined) {
    if (successor !== undefined)
      scope.report(['successor'], 'successor without until; write until: with the last month, or remove successor.', 'key')
    return window
  }
  if (`${until}-31` < window.from)
    scope.report(['until'], `until is '${until}', before window.from (${window.from}); nothing would ever be planned.`)
  return { ...window, publication: { ...window.publication, until: addWindows(`${until}-01`, 'month', 1) } }
}

const windowRule = (raw: RawDefinition['window'], scope: Scope): WindowRule => {
  const every = raw.every ?? 'month'
  const sizes = scope.source.windowSizes
  if (sizes !== undefined && !sizes.includes(every)) {
    scope.report(['window', 'every'], `${scope.source.name} has no data by ${every}; write every: ${sizes.join(' or ')}.`)
  }
  const calendar = raw.publication
  const zone = calendar?.time_zone ?? 'Etc/GMT+5'
  checkTimeZone(zone, ['window', 'publication', 'time_zone'], scope)
  return {
    every,
    from: firstDay(raw.from, every, scope),
    lookBack: raw.look_back ?? 2,
    fullCheckDays: raw.full_check === 'off' ? null : Number((raw.full_check ?? '30d').slice(0, -1)),
    publication: {
      publishedOn: calendar?.published_on ?? 10,
      restatedOn: calendar?.restated_on ?? [10, 15],
      timeZone: zone,
      ...(calendar?.after_days === undefined ? {} : { afterDays: calendar.after_days }),
    },
  }
}

const firstDay = (written: string, every: WindowRule['every'], scope: Scope): string => {
  const day = written.length === 7 ? `${written}-01` : written
  if (!isDay(day)) {
    scope.report(['window', 'from'], `window.from is '${written}', a day that does not exist; write a month such as 2024-01.`)
    return '1970-01-01'
  }
  const start = alignDown(day, every)
  if (written.length === 10 && start !== day) {
    scope.report(
      ['window', 'from'],
      `window.from is '${written}', in the middle of a ${every}; write ${every === 'month' ? start.slice(0, 7) : start}.`,
    )
  }
  return start
}

const scheduleOf = (raw: NonNullable<RawDefinition['schedule']>, scope: Scope): Schedule => {
  const wrong = cronProblem(raw.cron)
  if (wrong !== null) scope.report(['schedule', 'cron'], `schedule.cron: ${wrong}`)
  const timeZone = raw.time_zone ?? 'UTC'
  checkTimeZone(timeZone, ['schedule', 'time_zone'], scope)
  return { cron: raw.cron, timeZone, overlap: raw.overlap ?? 'queue', catchUp: raw.catch_up ?? 'last' }
}

const checkTimeZone = (zone: string, path: Path, scope: Scope): void => {
  try {
    // Intl accepts an offset such as +02:00, but an offset has no daylight saving time, so only names are allowed.
    if (!/^[A-Za-z]/.test(zone)) throw new EtlError('DEFINITION', 'an offset')
    new Intl.DateTimeFormat('en', { timeZone: zone })
  } catch {
    const hint = suggest(zone, ['UTC', ...Intl.supportedValuesOf('timeZone')]).replace(/ Known: .*/, '')
    scope.report(path, `${path.join('.')} is '${zone}'; expected an IANA time zone such as Europe/Berlin.${hint}`)
  }
}

const fields: Readonly<Record<string, { readonly name: string; readonly range: string }>> = {
  minute: { name: 'minute', range: '0 to 59' },
  hour: { name: 'hour', range: '0 to 23' },
  dayOfMonth: { name: 'day of the month', range: '1 to 31' },
  month: { name: 'month', range: '1 to 12, or jan to dec' },
  dayOfWeek: { name: 'weekday', range: '0 to 7, or sun to sat' },
}

/** What is wrong with `text` as a cron expression, or null. */
export const cronProblem = (text: string): string | null => {
  const parts = text.trim().split(/\s+/)
  if (parts.length !== 5) {
    return `'${text}' has ${parts.length} field(s), expected 5: minute hour day month weekday, for example "30 2 * * *".`
  }
  const { valid, errors } = validateDetailed(text)
  if (valid) return null
  const [error] = errors
  if (error === undefined) return `'${text}' is not a schedule; write for example "30 2 * * *".`
  if (/impossible/.test(error.message))
    return `day ${error.value} never comes in the month(s) '${parts[3]}'; choose a day that exists.`
  const field = fields[error.field] ?? { name: error.field, range: '*, lists, ranges, steps' }
  return `'${error.value}' is not ${field.name === 'hour' ? 'an' : 'a'} ${field.name} (${field.range}; also *, lists, ranges, steps).`
}

/** PostgreSQL's limit, included columns counted. */
const mostColumns = 32

/** Indexes in the order of the YAML. Problems go to the scope. @param columns the valid columns; empty where the parameters are wrong */
const resolveIndexes = (
  { key, indexes = [] }: RawDefinition['table'],
  columns: readonly Column[],
  scope: Scope,
): readonly TableIndex[] =>
  indexes.map((raw, place) => {
    const path: Path = ['table', 'indexes', place]
    const index = { columns: raw.columns, include: raw.include ?? [] }
    if (columns.length > 0) checkNames(raw, path, columns, scope)
    checkUse(index, path, key, scope)
    const twin = indexes.slice(0, place).some((one) => sameIndex({ columns: one.columns, include: one.include ?? [] }, index))
    if (twin) scope.report(path, 'the same index appears twice; keep one of the two.')
    return index
  })

/** Whether two indexes are equal; the order of included columns does not matter. */
const sameIndex = (left: TableIndex, right: TableIndex): boolean =>
  left.columns.join() === right.columns.join() && [...left.include].sort().join() === [...right.include].sort().join()

const checkNames = (raw: RawIndex, path: Path, columns: readonly Column[], scope: Scope): void => {
  const names = [...raw.columns, ...(raw.include ?? [])]
  const numerics = names.filter((name) => isNumeric(name, columns))
  names.forEach((name, at) => {
    const wrong =
      names.indexOf(name) < at
        ? `'${name}' appears twice in the index; keep one of the two.`
        : numerics.indexOf(name) > 0
          ? `'${name}' is the index's second numeric column outside the key; together they may be longer than an index entry. Take one out.`
          : columnProblem(name, columns)
    const inColumns = at < raw.columns.length
    const place: Path = [...path, inColumns ? 'columns' : 'include', inColumns ? at : at - raw.columns.length]
    if (wrong !== null) scope.report(place, wrong)
  })
}

/** Parsing limits the digits of a numeric so that one such column fits into an index entry beside the longest key. */
const isNumeric = (name: string, columns: readonly Column[]): boolean =>
  columns.some((column) => column.name === name && !column.isKey && columnTypes[column.type].fitsIndex === 'one')

const columnProblem = (name: string, columns: readonly Column[]): string | null => {
  const column = columns.find((one) => one.name === name)
  const known = columns.map((one) => one.name)
  if (column === undefined) return `the table has no column '${name}' to index.${suggest(name, known)}`
  // Only the key's length is checked row by row; a longer text in another column would exceed an index entry and fail its whole unit.
  if (column.isKey || columnTypes[column.type].fitsIndex !== false) return null
  const fitting = Object.entries(columnTypes).flatMap(([type, { fitsIndex }]) => (fitsIndex !== false ? [type] : []))
  const fix = `Take it out; of columns outside the key only ${fitting.join(', ')} fit.`
  return `'${name}' is ${column.type} and may be longer than an index entry. ${fix}`
}

const checkUse = (index: TableIndex, path: Path, key: readonly string[], scope: Scope): void => {
  const count = index.columns.length + index.include.length
  if (count > mostColumns) scope.report(path, `an index of ${count} columns; PostgreSQL allows ${mostColumns}.`)
  const isPartOfKey = index.include.length === 0 && index.columns.every((name, at) => name === key[at])
  if (isPartOfKey) scope.report(path, 'the key begins with these columns and is an index already; remove this one.')
}
