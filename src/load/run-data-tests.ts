// The data tests of a definition as one statement: sums up each unit's new rows once and returns the tests that fail.
import { columnTypes } from '../core/column-types.ts'
import { type RawBuilder, sql } from 'kysely'
import { type Bounds, type DataTest, isTotalTest, type RowTest, type TotalTest } from '../core/data-test.ts'
import type { Definition, Slice, Window, WindowSize } from '../core/types.ts'
import { addWindows, windowAt } from '../core/window.ts'
import type { Counts, Maybe, Numbers, Texts } from '../db/typed-row.ts'
import { isOfValues, dataTable } from './table-columns.ts'

/** What is tested. */
interface TestedRows {
  readonly definition: Definition
  readonly window: Window
  /** Values that the units have. */
  readonly slice: Slice
  /** Numbers of the units of the window that are tested. */
  readonly units: readonly number[]
  /** Rows of the answer as a table, with `_unit_id`. */
  readonly rows: RawBuilder<unknown>
  /** Whether rows of the units may be loaded, besides those of the answer. */
  readonly mayBeLoaded: boolean
  /** Windows before, newest first: the first that has rows of the unit is its period before. */
  readonly former: readonly FormerWindow[]
}

/** A unit in a window before, and that of the same slice in the window at hand. */
interface FormerUnit {
  readonly former: number
  readonly tested: number
  /** Its rows come with the same answer: the loaded ones do not count. */
  readonly comes: boolean
}

interface FormerWindow {
  readonly window: Window
  readonly units: readonly FormerUnit[]
}

/** One test that one unit fails. `place`: of the test among the definition's. */
export type FailedRow = Numbers<'place'> & Counts<'unit_id' | 'looked' | 'failing'> & Maybe<Texts<'found' | 'expected' | 'since'>>

/** A row for each unit and test that fails. A unit of the scope that the answer has no row for counts as one with none. */
export const failedTests = (tested: TestedRows): RawBuilder<FailedRow> => {
  const { tests } = tested.definition
  const kinds = tests.map(({ kind }) => kind)
  const verdicts = tests.map((test, place) => sql`(${sql.lit(place)}::integer, ${verdictOf(test, place)})`)
  return sql<FailedRow>`
    with units as materialized (select unit_id from unnest(${tested.units.map(String)}::bigint[]) as u (unit_id)), came as materialized (${sumsByUnit(tested)})
      ${kinds.includes('ratio') ? formerTotals(tested) : sql``}
      ${kinds.includes('restated') ? sql`, present as materialized (${presentTotals(tested)})` : sql``}
    select judged.place, units.unit_id::text as unit_id, judged.looked::text as looked, judged.failing::text as failing, judged.found,
      judged.expected, judged.since::text as since
    from units left join came on came.unit_id = units.unit_id
      ${kinds.includes('ratio') ? sql`left join former on former.unit_id = units.unit_id` : sql``}
      ${kinds.includes('restated') ? sql`left join present on present.unit_id = units.unit_id` : sql``}
      cross join lateral (values ${sql.join(verdicts)}) as judged (place, looked, failing, found, expected, since, has_failed)
    where judged.has_failed order by units.unit_id, judged.place`
}

type Sum = 'looked' | 'failing' | 'found'

/** Name of a sum of the test at that place. */
const nameOf = (what: Sum, place: number): string => `${what}_${place}`

/** The answer's rows, summed up by unit for every test. */
const sumsByUnit = ({ definition, units, rows }: TestedRows): RawBuilder<unknown> => {
  const sums = definition.tests.flatMap((test, place) => {
    if (isTotalTest(test)) return [sql`${totalOf(test, 's')} as ${sql.ref(nameOf('found', place))}`]
    const wrong = isWrong(definition, test)
    return [
      sql`count(*) filter (where ${hasValue(test)}) as ${sql.ref(nameOf('looked', place))}`,
      sql`count(*) filter (where ${wrong}) as ${sql.ref(nameOf('failing', place))}`,
      sql`${exampleOf(test)} filter (where ${wrong}) as ${sql.ref(nameOf('found', place))}`,
    ]
  })
  return sql`select s._unit_id as unit_id, count(*) as looked, ${sql.join(sums)} from ${rows} s
    where s._unit_id = any(${units.map(String)}::bigint[]) group by 1`
}

const came = (column: string): RawBuilder<unknown> => sql.ref(`s.${column}`)

const partsOf = ({ of }: { readonly of: readonly string[] }): RawBuilder<unknown> =>
  sql.join(
    of.map((column) => sql`${came(column)}::numeric`),
    sql` + `,
  )

const hasValue = (test: RowTest): RawBuilder<unknown> => {
  if (test.kind === 'not_null') return sql`true`
  const value = came(test.column)
  return test.kind === 'sum_of' ? sql`${value} - (${partsOf(test)}) is not null` : sql`${value} is not null`
}

/** Of a row `s`; NULL where a value that is needed is missing. */
const isWrong = ({ columns }: Definition, test: RowTest): RawBuilder<unknown> => {
  const value = came(test.column)
  if (test.kind === 'range') return isBeyond(value, test.bounds, sql`1`)
  if (test.kind === 'not_null') return sql`${value} is null`
  if (test.kind === 'sum_of') {
    const most =
      'share' in test.within ? sql`${String(test.within.share)}::numeric * abs(${value})` : sql`${test.within.amount}::numeric`
    return sql`abs(${value} - (${partsOf(test)})) > ${most}`
  }
  // Of a list each value must be accepted.
  const isList = columns.some(({ name, type }) => name === test.column && columnTypes[type].isList)
  return sql`not (${isList ? value : sql`array[${value}::text]`} <@ ${[...test.values]}::text[]) and ${value} is not null`
}

/** An example for people; of a text, which anybody may have written, only a part. */
const exampleOf = (test: RowTest): RawBuilder<unknown> => {
  if (test.kind === 'not_null') return sql`max(null::text)`
  if (test.kind === 'sum_of') return sql`max(abs(${came(test.column)} - (${partsOf(test)})))`
  return test.kind === 'range' ? sql`max(${came(test.column)})` : sql`max(left(${came(test.column)}::text, 60))`
}

const isBeyond = (value: RawBuilder<unknown>, { from, to }: Bounds, times: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`(${sql.join(
    [
      ...(from === null ? [] : [sql`${value} < ${from}::numeric * ${times}`]),
      ...(to === null ? [] : [sql`${value} > ${to}::numeric * ${times}`]),
    ],
    sql` or `,
  )})`

/** @param rows alias of rows, those that came or those loaded */
const totalOf = ({ column }: TotalTest, rows: string): RawBuilder<unknown> =>
  column === null ? sql`count(*)::numeric` : sql`sum(${sql.ref(`${rows}.${column}`)})::numeric`

/** How many windows back the period before is searched: held and missing windows are skipped. */
const mostFormer = 3

/** Newest first. */
export const formerWindows = ({ from }: Window, every: WindowSize): readonly Window[] =>
  Array.from({ length: mostFormer }, (_, place) => windowAt(addWindows(from, every, -1 - place), every))

/** Totals of the period before. An older window is read only for units that no newer one has rows of. */
const formerTotals = (tested: TestedRows): RawBuilder<unknown> => {
  const names = tested.former.map((_, place) => sql.raw(`former_${place + 1}`))
  const found = tested.former.map((former, place) => {
    const newer = names.slice(0, place).map((name) => sql`select unit_id from ${name}`)
    const isWanted =
      place === 0 ? sql`true` : sql`exists (select 1 from units where unit_id not in (${sql.join(newer, sql` union all `)}))`
    return sql`, ${names[place]} as materialized (${totalsBefore(tested, former, isWanted)})`
  })
  const all = names.map((name, place) => sql`select ${sql.lit(place)} as back, * from ${name}`)
  return sql`${sql.join(found, sql``)}, former as materialized (
    select distinct on (unit_id) * from (${sql.join(all, sql` union all `)}) found order by unit_id, back)`
}

/** Sums of loaded rows `t`, by unit. */
const sumsOf = ({ definition }: TestedRows, kind: TotalTest['kind'], { from }: Window): RawBuilder<unknown> => {
  const sums = definition.tests.flatMap((test, place) =>
    isTotalTest(test) && test.kind === kind ? [sql`${totalOf(test, 't')} as ${sql.ref(nameOf('found', place))}`] : [],
  )
  return sql`${from}::date as since, ${sql.join(sums)}`
}

/** Units without rows are left out. */
const totalsBefore = (
  tested: TestedRows,
  { window, units }: FormerWindow,
  isWanted: RawBuilder<unknown>,
): RawBuilder<unknown> => {
  const { definition, slice, rows } = tested
  const from = (table: RawBuilder<unknown>, some: readonly FormerUnit[]): RawBuilder<unknown> => sql`
    select f.unit_id, ${sumsOf(tested, 'ratio', window)}
    from unnest(${some.map(({ former }) => String(former))}::bigint[], ${some.map((unit) => String(unit.tested))}::bigint[]) as f (former_id, unit_id)
      join ${table} t on t._unit_id = f.former_id
    where ${isOfValues(definition, { window, slice }, 't')} and ${isWanted} group by f.unit_id`
  const coming = units.filter(({ comes }) => comes)
  const loaded = from(
    dataTable(definition),
    units.filter(({ comes }) => !comes),
  )
  return coming.length === 0 ? loaded : sql`${loaded} union all ${from(rows, coming)}`
}

const presentTotals = (tested: TestedRows): RawBuilder<unknown> => {
  const { definition, slice, window, units, mayBeLoaded } = tested
  return sql`select t._unit_id as unit_id, ${sumsOf(tested, 'restated', window)} from ${dataTable(definition)} t
    where ${mayBeLoaded ? isOfValues(definition, { window, slice }, 't') : sql`false`} and t._unit_id = any(${units.map(String)}::bigint[]) group by 1`
}

/** looked, failing, found, expected, since, has_failed. */
const verdictOf = (test: DataTest, place: number): RawBuilder<unknown> => {
  const of = (table: string, what: Sum): RawBuilder<unknown> => sql.ref(`${table}.${nameOf(what, place)}`)
  if (!isTotalTest(test)) {
    const failing = sql`coalesce(${of('came', 'failing')}, 0)`
    const looked = sql`coalesce(${of('came', 'looked')}, 0)`
    return sql`${looked}, ${failing}, ${of('came', 'found')}::text, null::text, null::date,
      ${failing} > ${String(test.allow)}::numeric * ${looked}`
  }
  const table = test.kind === 'ratio' ? 'former' : 'present'
  const before = of(table, 'found')
  const found = test.column === null ? sql`coalesce(${of('came', 'found')}, 0)` : of('came', 'found')
  const isOff =
    test.kind === 'ratio'
      ? isBeyond(found, test.bounds, before)
      : sql`abs(${found} - ${before}) > ${String(test.share)}::numeric * abs(${before})`
  // greatest() ignores NULL, the comparison does not.
  return sql`coalesce(came.looked, 0), 0::bigint, ${found}::text, ${before}::text, ${sql.ref(`${table}.since`)},
    ${isOff} and greatest(abs(${found}), abs(${before})) >= ${test.atLeast}::numeric`
}
