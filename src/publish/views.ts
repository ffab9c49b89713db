// The statements of one pipeline's views: current rows, every revision, and what was believed at a moment.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'

const lineage = ['_unit_id', '_run_id', '_revision', '_loaded_at'] as const

const list = (names: readonly string[]): RawBuilder<unknown> => sql.join(names.map((name) => sql.ref(name)))

const dataName = (definition: Definition): string => `data.${definition.pipeline}_v${definition.version}`

/** Columns of the table behind a view, in order. */
export const tableColumns = (definition: Definition): string[] => [...definition.columns.map((column) => column.name), ...lineage]

export const viewColumns = (definition: Definition): string[] => [...tableColumns(definition), 'is_final', 'restated_at']

const periodOf = (definition: Definition): string => definition.key.find((name) => name === 'month' || name === 'date') ?? 'month'

/** After that many months no nightly run looks at the window again. */
const finalAfter = (definition: Definition): RawBuilder<unknown> => {
  const { every, lookBack, publication } = definition.window
  const size = every === 'month' ? 'months' : every === 'week' ? 'weeks' : 'days'
  return sql.lit(`${lookBack + 1} ${size} ${publication.publishedOn} days`)
}

const judged = (definition: Definition): RawBuilder<unknown> =>
  sql`(${sql.ref(periodOf(definition))} + ${finalAfter(definition)}::interval <= current_date) as is_final,
    case when _revision > 1 then _loaded_at end as restated_at`

export const currentView = (definition: Definition): RawBuilder<unknown> =>
  sql`select ${list(tableColumns(definition))}, ${judged(definition)} from ${sql.table(dataName(definition))}`

export const historyColumns = (definition: Definition): string[] => [
  ...tableColumns(definition),
  'valid_from',
  'valid_to',
  'is_current',
]

export const historyView = (definition: Definition): RawBuilder<unknown> => {
  const columns = list(tableColumns(definition))
  return sql`select ${columns}, _loaded_at as valid_from, null::timestamptz as valid_to, true as is_current
    from ${sql.table(dataName(definition))}
    union all select ${columns}, _valid_from, _valid_to, false from ${sql.table(`${dataName(definition)}_history`)}`
}

/** Plain SQL over the history view, so that the planner puts it into the question and uses the question's conditions. */
export const asOfFunction = (definition: Definition): RawBuilder<unknown> =>
  sql`create or replace function ${asOfName(definition)}(at timestamptz) returns setof ${sql.table(`bi.${definition.pipeline}`)}
    language sql stable
    begin atomic
      select ${list(tableColumns(definition))}, ${judged(definition)} from ${sql.table(`bi.${definition.pipeline}_history`)}
      where valid_from <= at and (valid_to is null or at < valid_to);
    end`

export const asOfName = (definition: Definition): RawBuilder<unknown> => sql.table(`bi.${definition.pipeline}_as_of`)

export const freshnessView = sql`
  select pipeline, version,
    max(window_from) filter (where loaded_at is not null) as newest_window,
    min(window_from) filter (where loaded_at is not null) as oldest_window,
    max(loaded_at) as last_loaded_at, max(checked_at) as last_checked_at,
    count(*) filter (where loaded_at is not null) as units_loaded,
    count(*) filter (where state = 'waiting') as units_waiting,
    count(*) filter (where state = 'held') as units_held,
    count(*) filter (where state = 'failed') as units_failed,
    coalesce(sum(loaded_rows), 0)::bigint as rows_loaded
  from etl.units group by pipeline, version`
