// The statements of one pipeline's views: current rows, every revision, and what was believed at a moment.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import { type FormerSpan, goingOn, keptUnits, type Series, type Standing } from './versions.ts'

const lineage = ['_unit_id', '_run_id', '_revision', '_loaded_at'] as const

const list = (names: readonly string[]): RawBuilder<unknown> => sql.join(names.map((name) => sql.ref(name)))

const dataName = (definition: Definition): string => `data.${definition.pipeline}_v${definition.version}`

/** Columns of the table behind a view, in order. */
export const tableColumns = (definition: Definition): string[] => [...definition.columns.map((column) => column.name), ...lineage]

/** Names of the view's columns, in its order. */
export const viewColumns = (definition: Definition): string[] => [...tableColumns(definition), 'is_final', 'restated_at']

export const periodOf = (definition: Definition): string =>
  definition.key.find((name) => name === 'month' || name === 'date') ?? 'month'

/** After that many months no nightly run asks for the window again. */
const finalAfter = (definition: Definition): RawBuilder<unknown> => {
  const { every, lookBack, publication } = definition.window
  const days = publication.afterDays ?? publication.publishedOn
  // PostgreSQL takes no interval that names days twice.
  if (every === 'day') return sql.lit(`${lookBack + 1 + days} days`)
  return sql.lit(`${lookBack + 1} ${every}s ${days} days`)
}

/** Rows of several days may share a window, which is asked for as a whole: they are final together. */
const windowOf = (definition: Definition): RawBuilder<unknown> => {
  const period = sql.ref(periodOf(definition))
  return definition.window.every === 'day' ? period : sql`date_trunc(${sql.lit(definition.window.every)}, ${period}::timestamp)`
}

const judged = (definition: Definition): RawBuilder<unknown> =>
  // What was cut at a limit is not complete, however old it is.
  sql`(${windowOf(definition)} + ${finalAfter(definition)}::interval <= current_date
      and _unit_id not in (select c from etl.capped_unit_ids() c)) as is_final,
    case when _revision > 1 then _loaded_at end as restated_at`

/** Columns of a former version's table, or of a successor's, in the order and types of the published one; NULL where it lacks one. */
const formerColumns = (definition: Definition, { columns }: Pick<FormerSpan, 'columns'>): RawBuilder<unknown> =>
  sql.join([
    ...definition.columns.map(
      ({ name, type }) => sql`${columns.has(name) ? sql.ref(`f.${name}`) : sql`null`}::${sql.raw(type)} as ${sql.ref(name)}`,
    ),
    ...lineage.map((name) => sql.ref(`f.${name}`)),
  ])

const formerTable = ({ pipeline }: Definition, { version }: FormerSpan, suffix = ''): RawBuilder<unknown> =>
  sql`${sql.table(`data.${pipeline}_v${version}${suffix}`)} f`

/** Rows of the table, of former versions those of cells that this one has no answer for, and of what continues it. */
export const currentRows = (definition: Definition, series: Series): RawBuilder<unknown> => {
  const own = sql`select ${list(tableColumns(definition))} from ${sql.table(dataName(definition))}`
  const others = goingOn(series).map(
    (span) => sql`select ${formerColumns(definition, span)} from ${formerTable(definition, span)}
        where f._unit_id in (${keptUnits(definition, span.version)})`,
  )
  const rows = sql.join([own, ...others], sql` union all `)
  if (series.next === null) return rows
  const { next } = series
  const [period, from] = [sql.ref(`f.${periodOf(definition)}`), sql`${sql.lit(next.from)}::date`]
  return sql`select f.* from (${rows}) f where ${period} < ${from}
    union all select ${formerColumns(definition, next)} from (${currentRows(next.definition, next.series)}) f where ${period} >= ${from}`
}

/** The query of bi.<pipeline>: current rows, with `is_final` and `restated_at` judged as they are read. */
export const currentView = (definition: Definition, series: Series): RawBuilder<unknown> =>
  sql`select ${list(tableColumns(definition))}, ${judged(definition)} from (${currentRows(definition, series)}) r`

const revision = ['valid_from', 'valid_to', 'is_current', '_version'] as const

/** Names of the history view's columns, in its order. */
export const historyColumns = (definition: Definition): string[] => [...tableColumns(definition), ...revision]

/** The query of bi.<pipeline>_history: current rows and ended ones, each with the time readers of bi saw it in. */
export const historyView = (definition: Definition, series: Series): RawBuilder<unknown> => {
  const columns = list(tableColumns(definition))
  const version = sql.lit(definition.version)
  const since = series.since === null ? null : moment(series.since)
  const from = (column: 'f._loaded_at' | 'f._valid_from'): RawBuilder<unknown> =>
    since === null ? sql.ref(column) : sql`greatest(${sql.ref(column)}, ${since})`
  const own = sql`select ${columns}, ${from('f._loaded_at')} as valid_from, null::timestamptz as valid_to, true as is_current, ${version} as _version
    from ${sql.table(dataName(definition))} f
    union all select ${columns}, ${from('f._valid_from')}, f._valid_to, false, ${version} from ${sql.table(`${dataName(definition)}_history`)} f
    ${since === null ? sql`` : sql`where f._valid_to > ${since}`}`
  const all = sql.join([own, ...series.former.map((span) => formerRevisions(definition, span, series))], sql` union all `)
  const shares = sharesOf(series.standings).map((share) => seenRevisions(definition, share, all))
  return shares.length === 0 ? all : sql.join(shares, sql` union all `)
}

/** From one day to before another readers saw the rows of one pipeline, for a span of time. */
interface Share extends Standing {
  readonly first: string | null
  readonly before: string | null
}

/** What follows one another in time is one share, so that no revision is cut by what did not touch its day. */
const sharesOf = (standings: readonly Standing[]): Share[] => {
  const days = [null, ...[...new Set(standings.flatMap(({ by }) => by?.from ?? []))].sort()]
  return days.flatMap((first, at) => {
    const shares: Share[] = []
    for (const standing of standings) {
      const isOwn = first === null || standing.by === null || first < standing.by.from
      const share = { ...standing, ...(isOwn ? { by: null, next: null } : {}), first, before: days[at + 1] ?? null }
      const last = shares.at(-1)
      if (last !== undefined && last.by?.pipeline === share.by?.pipeline) shares.splice(-1, 1, { ...last, to: share.to })
      else shares.push(share)
    }
    return shares.filter(({ by, next }) => by === null || next !== null)
  })
}

/** @param own revisions of the pipeline itself */
const seenRevisions = (definition: Definition, { next, first, before, since, to }: Share, own: RawBuilder<unknown>) => {
  const period = sql.ref(`f.${periodOf(definition)}`)
  const conditions = [
    ...(first === null ? [] : [sql`${period} >= ${sql.lit(first)}::date`]),
    ...(before === null ? [] : [sql`${period} < ${sql.lit(before)}::date`]),
    ...(since === null ? [] : [sql`(f.valid_to is null or f.valid_to > ${moment(since)})`]),
    ...(to === null ? [] : [sql`f.valid_from < ${moment(to)}`]),
  ]
  const from = since === null ? sql`f.valid_from` : sql`greatest(f.valid_from, ${moment(since)}) as valid_from`
  const until =
    to === null ? sql`f.valid_to, f.is_current` : sql`least(f.valid_to, ${moment(to)}) as valid_to, false as is_current`
  const columns =
    next === null ? sql.join(tableColumns(definition).map((name) => sql.ref(`f.${name}`))) : formerColumns(definition, next)
  const rows = next === null ? own : historyView(next.definition, next.series)
  return sql`select ${columns}, ${from}, ${until}, f._version from (${rows}) f ${conditions.length === 0 ? sql`` : sql`where ${sql.join(conditions, sql` and `)}`}`
}

const moment = (text: string): RawBuilder<unknown> => sql`${sql.lit(text)}::timestamptz`

/** What readers saw of a former version: until the next one was published, or for cells that go on until that one had an answer, or it was shown again itself. */
const formerRevisions = (definition: Definition, span: FormerSpan, { kept }: Series): RawBuilder<unknown> => {
  const columns = formerColumns(definition, span)
  const isKept = kept.has(span.version)
  const until = isKept ? sql`case when k.unit_id is null then ${moment(span.to)} else k.until end` : moment(span.to)
  const join = isKept
    ? sql`left join etl.kept_cells k on k.unit_id = f._unit_id and k.pipeline = ${sql.lit(definition.pipeline)} and k.version = ${sql.lit(span.version)}
      and k.since = ${moment(span.to)}`
    : sql``
  const from = (column: 'f._loaded_at' | 'f._valid_from'): RawBuilder<unknown> =>
    span.from === null ? sql.ref(column) : sql`greatest(${sql.ref(column)}, ${moment(span.from)})`
  const within = (column: 'f._loaded_at' | 'f._valid_from'): RawBuilder<unknown> =>
    isKept ? sql`(${until} is null or ${sql.ref(column)} < ${until})` : sql`${sql.ref(column)} < ${until}`
  const after = span.from === null ? sql`` : sql`and f._valid_to > ${moment(span.from)}`
  const version = sql.lit(span.version)
  return sql`select ${columns}, ${from('f._loaded_at')}, ${until}, ${isKept ? sql`${until} is null` : sql`false`}, ${version}
    from ${formerTable(definition, span)} ${join} where ${within('f._loaded_at')}
    union all select ${columns}, ${from('f._valid_from')}, least(f._valid_to, ${until}), false, ${version}
    from ${formerTable(definition, span, '_history')} ${join} where ${within('f._valid_from')} ${after}`
}

/** Plain SQL over the history view, so that the planner puts it into the question and uses the question's conditions; refused where it cannot. */
export const asOfFunction = (definition: Definition): RawBuilder<unknown> =>
  sql`create or replace function ${asOfName(definition)}(at timestamptz) returns setof ${sql.table(`bi.${definition.pipeline}`)}
    language sql stable
    begin atomic
      select ${list(tableColumns(definition))}, ${judged(definition)} from ${sql.table(`bi.${definition.pipeline}_history`)}
      where valid_from <= at and (valid_to is null or at < valid_to) and etl.assert_part_of_question(${sql.lit(`${definition.pipeline}_as_of`)});
    end`

/** bi.<pipeline>_as_of: a name PostgreSQL has room for, since pipelines have 44 characters at most. */
export const asOfName = (definition: Definition): RawBuilder<unknown> => sql.table(`bi.${definition.pipeline}_as_of`)

// Closed windows stand in the ledger as they were counted, so that this is quick however many units there are.
export const freshnessView = sql`
  select u.pipeline, u.version, u.newest_window, u.oldest_window, l.last_loaded_at, l.last_checked_at, u.units_loaded, u.units_waiting,
    u.units_held, u.units_failed, l.rows_loaded, (select count(*) from etl.slices s join etl.pipelines p using (pipeline_id)
      where p.pipeline = u.pipeline and p.version = u.version and s.wanted_until is not null) as slices_left
  from (select pipeline, version, max(window_from) filter (where loaded) as newest_window, min(window_from) filter (where loaded) as oldest_window,
      coalesce(sum(units) filter (where loaded), 0)::bigint as units_loaded,
      coalesce(sum(units) filter (where state = 'waiting'), 0)::bigint as units_waiting,
      coalesce(sum(units) filter (where state = 'held'), 0)::bigint as units_held,
      coalesce(sum(units) filter (where state = 'failed'), 0)::bigint as units_failed
    from etl.window_states group by 1, 2) u
  join (select pipeline, version, max(last_loaded_at) as last_loaded_at, max(last_checked_at) as last_checked_at, sum("rows")::bigint as rows_loaded
    from etl.window_loads group by 1, 2) l on l.pipeline = u.pipeline and l.version = u.version`
