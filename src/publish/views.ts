// The SQL of one pipeline's views: current rows, every revision, and the rows as of a moment.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import { type FormerSpan, stillCounted, keptUnits, type Series, type ShownSpan } from './versions.ts'

const lineage = ['_unit_id', '_run_id', '_revision', '_loaded_at'] as const

const list = (names: readonly string[]): RawBuilder<unknown> => sql.join(names.map((name) => sql.ref(name)))

const dataName = (definition: Definition): string => `data.${definition.pipeline}_v${definition.version}`

/** Columns of the table behind a view, in order. */
export const tableColumns = (definition: Definition): string[] => [...definition.columns.map((column) => column.name), ...lineage]

/** Names of the view's columns, in its order. */
export const viewColumns = (definition: Definition): string[] => [...tableColumns(definition), 'is_final', 'restated_at']

export const periodOf = (definition: Definition): string =>
  definition.key.find((name) => name === 'month' || name === 'date') ?? 'month'

/** The age at which no nightly run requests the window again. */
const finalAfter = (definition: Definition): RawBuilder<unknown> => {
  const { every, lookBack, publication } = definition.window
  const days = publication.afterDays ?? publication.publishedOn
  // PostgreSQL takes no interval that names days twice.
  if (every === 'day') return sql.lit(`${lookBack + 1 + days} days`)
  return sql.lit(`${lookBack + 1} ${every}s ${days} days`)
}

/** First day of a row's window: a window is requested as a whole, so all its rows become final together. */
const windowOf = (definition: Definition): RawBuilder<unknown> => {
  const period = sql.ref(periodOf(definition))
  return definition.window.every === 'day' ? period : sql`date_trunc(${sql.lit(definition.window.every)}, ${period}::timestamp)`
}

const judged = (definition: Definition): RawBuilder<unknown> =>
  // A unit truncated at a row limit is never final, because it is not complete.
  sql`(${windowOf(definition)} + ${finalAfter(definition)}::interval <= current_date
      and _unit_id not in (select c from etl.capped_unit_ids() c)) as is_final,
    case when _revision > 1 then _loaded_at end as restated_at`

/** Columns of a former version or a successor in the order and types of the published version; NULL where a column is missing. */
const formerColumns = (definition: Definition, { columns }: Pick<FormerSpan, 'columns'>): RawBuilder<unknown> =>
  sql.join([
    ...definition.columns.map(
      ({ name, type }) => sql`${columns.has(name) ? sql.ref(`f.${name}`) : sql`null`}::${sql.raw(type)} as ${sql.ref(name)}`,
    ),
    ...lineage.map((name) => sql.ref(`f.${name}`)),
  ])

const formerTable = ({ pipeline }: Definition, { version }: FormerSpan, suffix = ''): RawBuilder<unknown> =>
  sql`${sql.table(`data.${pipeline}_v${version}${suffix}`)} f`

/** Rows of the published version, rows of former versions for cells that it has no answer for, and the successor's rows. */
export const currentRows = (definition: Definition, series: Series): RawBuilder<unknown> => {
  const own = sql`select ${list(tableColumns(definition))} from ${sql.table(dataName(definition))}`
  const others = stillCounted(series).map(
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

/** The query of bi.<pipeline>: current rows, with `is_final` and `restated_at` computed at query time. */
export const currentView = (definition: Definition, series: Series): RawBuilder<unknown> =>
  sql`select ${list(tableColumns(definition))}, ${judged(definition)} from (${currentRows(definition, series)}) r`

const revision = ['valid_from', 'valid_to', 'is_current', '_version'] as const

/** Names of the history view's columns, in its order. */
export const historyColumns = (definition: Definition): string[] => [...tableColumns(definition), ...revision]

/** The query of bi.<pipeline>_history: current and ended rows, each with the time during which bi showed it. */
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

/** For days from `first` until `before`, readers saw one pipeline's rows during this span of time. */
interface Share extends ShownSpan {
  readonly first: string | null
  readonly before: string | null
}

/** Merges consecutive spans with the same pipeline, so that a change of other days does not split a revision. */
const sharesOf = (standings: readonly ShownSpan[]): Share[] => {
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

/** The revisions that readers saw in one share. @param own revisions of the pipeline itself */
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

/** Revisions of a former version as readers saw them: until the next was published; kept cells until that had an answer, or their own was published again. */
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

/** Plain SQL over the history view, so that the planner inlines it and applies the caller's conditions inside; where it cannot inline, the call is refused. */
export const asOfFunction = (definition: Definition): RawBuilder<unknown> =>
  sql`create or replace function ${asOfName(definition)}(at timestamptz) returns setof ${sql.table(`bi.${definition.pipeline}`)}
    language sql stable
    begin atomic
      select ${list(tableColumns(definition))}, ${judged(definition)} from ${sql.table(`bi.${definition.pipeline}_history`)}
      where valid_from <= at and (valid_to is null or at < valid_to) and etl.assert_part_of_question(${sql.lit(`${definition.pipeline}_as_of`)});
    end`

/** bi.<pipeline>_as_of: fits PostgreSQL's limit of 63 bytes, since a pipeline's name has at most 44 characters. */
export const asOfName = (definition: Definition): RawBuilder<unknown> => sql.table(`bi.${definition.pipeline}_as_of`)

// The ledger stores the counts of closed windows, so this is fast with any number of units.
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
