// Summaries: tables in bi with figures that would otherwise be read from every row; a load refreshes the part of its units in its own transaction.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { type Mart, summarySignature } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { tooWideError, beforeSuccessor, type SummaryInput, summaryQuery } from '../db/summary-query.ts'
import { type Lists, prepared, queryColumn, type Row, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { isOfValues, dataTable, inScope, inWindow, periodColumn, type UnitScope } from './table-columns.ts'

/** Summaries that are filled from the definition's rows. */
const summariesOf = (definition: Definition, marts: readonly Mart[]): readonly Mart[] =>
  marts.filter(({ summaryOf }) => summaryOf === definition.pipeline)

/** Marts as a process knows them: from the files as they were when it began, or when it read them again. */
export interface KnownMarts {
  current(): readonly Mart[]
  /** From the files as they are now. */
  reread(): Promise<readonly Mart[]>
}

/**
 * The definition's summaries that exist in bi, each as its table was made: marts that came or changed since the process began are read from their
 * files. Throws SCHEMA_BEHIND where the file has another query than the table, since rows would land in wrong columns.
 */
const publishedSummaries = async (db: Db, definition: Definition, marts: KnownMarts): Promise<readonly Mart[]> => {
  let known = marts.current()
  let found = await foundAmong(db, definition, known)
  const unknown = found.filter((one) => !one.includes(' ')).join()
  if (differing(definition, known, found).length > 0 || unknown !== (unknownTo.get(marts) ?? '')) {
    known = await marts.reread()
    found = await foundAmong(db, definition, known)
    unknownTo.set(marts, found.filter((one) => !one.includes(' ')).join())
  }
  const [other] = differing(definition, known, found)
  // With `publish: false` it is hidden, and made anew once it is published again.
  if (other !== undefined && definition.publish) throw summaryDiffers(other)
  return summariesOf(definition, known).filter((mart) => found.includes(madeFrom(mart, definition)))
}

/** Marts in bi without a file on this machine: the files are read again once for them, not with each load. */
const unknownTo = new WeakMap<KnownMarts, string>()

/** The definition's summaries whose tables were made from another query than their files have; empty: there are none. */
export const differingSummaries = async (db: Db, definition: Definition, marts: readonly Mart[]): Promise<readonly Mart[]> =>
  definition.publish ? differing(definition, marts, await foundAmong(db, definition, marts)) : []

export const summaryDiffers = ({ name, file }: Mart): EtlError =>
  new EtlError(
    'SCHEMA_BEHIND',
    `bi.${name} was made from another query than ${file} has. Run \`millrace migrate\` where the right file is, then this command again.`,
  )

/** A summary's name and what its table is made from. */
const madeFrom = (mart: Mart, { version }: Definition): string => `${mart.name} ${summarySignature(mart, version)}`

/** As text[]: of the definition's summaries in bi, what each was made from; then names of marts in bi that are not among `marts`. */
const publishedAmong = (definition: Definition, marts: readonly Mart[]): RawBuilder<readonly string[]> => {
  const names = (some: readonly Mart[]) => sql`${some.map(({ name }) => name)}::text[]`
  const signature = sql.raw(`substring(obj_description(c.oid, 'pg_class') from '\\[([0-9a-f]{16})\\]$')`)
  return sql`(select coalesce(array_agg(c.relname || ' ' || coalesce(${signature}, '') order by c.relname), '{}')
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'bi' and c.relkind = 'r' and c.relname = any(${names(summariesOf(definition, marts))}))
    || (select coalesce(array_agg(m.name order by m.name), '{}') from etl.marts m where not m.name = any(${names(marts)}))`
}

const foundAmong = async (db: Db, definition: Definition, marts: readonly Mart[]): Promise<readonly string[]> => {
  const [row] = await prepared<Lists<Texts<'found'>>>(db)`select ${publishedAmong(definition, marts)} as found`
  return row?.found ?? []
}

const differing = (definition: Definition, marts: readonly Mart[], found: readonly string[]): readonly Mart[] =>
  summariesOf(definition, marts).filter(
    (mart) => found.some((one) => one.startsWith(`${mart.name} `)) && !found.includes(madeFrom(mart, definition)),
  )

/**
 * Recomputes the part of each summary that sums up rows of these units. Call in the load's transaction, after its rows and the units' pointers: a
 * reader sees rows and sums change at once. Units that are left out keep their part of the summary: it may come from a former version. A summary that
 * is not published yet is filled when it is. Throws as `publishedSummaries`. @param hasGaps some combinations of the scope are no units: they are left out, too
 */
export const refreshSummaries = async (
  trx: Db,
  definition: Definition,
  { units, hasGaps = false, ...scope }: UnitScope & Pick<SummaryInput, 'units'> & { readonly hasGaps?: boolean },
  marts: KnownMarts,
): Promise<void> => {
  const version = definition.publish ? definition.version : await shownVersion(trx, definition, units)
  if (version === null) return
  const isFormer = version !== definition.version
  const { leftOut } = scope
  const conditions = [
    units,
    ...(leftOut.length === 0 ? [] : [sql<boolean>`u.unit_id <> all(${leftOut.map(String)}::bigint[])`]),
    // Each statement checks it anew: the published version may get its answer in between.
    ...(isFormer ? [stillCounts(definition)] : []),
  ]
  const own = sql<boolean>`${sql.join(conditions, sql` and `)}`
  // The view has rows of a former version in the columns of the published one.
  const facts = isFormer
    ? sql`(select * from ${sql.table(`bi.${definition.pipeline}`)} t where ${isOfValues(definition, scope, 't')}
        and t._unit_id in (select u.unit_id from etl.units u where ${own}))`
    : sql`(select * from ${dataTable(definition)} t where ${inScope(definition, scope, 't')})`
  const only = conditions.length > 1 || hasGaps ? sql` and ${isOfUnits(definition, own, 't')}` : sql``
  const period = sql.ref(periodColumn(definition))
  for (const mart of await publishedSummaries(trx, { ...definition, version }, marts)) {
    const table = sql.table(`bi.${mart.name}`)
    await sql`delete from ${table} t where ${isOfValues(definition, scope, 't')}${only}`.execute(trx)
    const part = beforeSuccessor(definition, periodColumn(definition), { facts, units: own })
    const [stray] = await queryColumn<Texts<'day'>>(trx)`
      with part as materialized (${summaryQuery(mart, definition, part)}),
      stray as materialized (select min(part.${period})::text as day from part where not (${inWindow(definition, scope.window, 'part')})),
      filled as (insert into ${table} select part.* from part, stray where stray.day is null)
      select day from stray where day is not null`
    if (stray !== undefined) throw tooWideError(mart, stray)
  }
}

/** Whether unit `u` of a former version counts: the published version has no answer for it. */
const stillCounts = ({ version }: Definition): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.kept_cells k where k.unit_id = u.unit_id and k.version = ${version} and not k.is_over)`

/**
 * For a version that its file does not publish: the version that bi shows; null: readers see nothing of the units. Readers see all units of the version that bi
 * shows; of a former version those for which the shown one has no answer; and none of a version with another key, since the view does not read it.
 */
const shownVersion = async (trx: Db, definition: Definition, units: RawBuilder<unknown>): Promise<number | null> => {
  const { pipeline, version } = definition
  const [shown = null] = await queryColumn<Row<'etl.published_now', 'version'>>(trx)`
    select n.version from etl.published_now n where n.pipeline = ${pipeline}
      and (n.version = ${version} or exists (select from etl.units u where ${units} and ${stillCounts(definition)}))
      and exists (select from pg_depend d join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
      where r.ev_class = to_regclass(${`bi.${pipeline}`}) and d.refclassid = 'pg_class'::regclass and d.refobjid = to_regclass(${`data.${pipeline}_v${version}`}))`
  return shown
}

/** The same as `_unit_id = any(…)` for rows without that column. */
const isOfUnits = (definition: Definition, units: RawBuilder<unknown>, alias: string): RawBuilder<boolean> => {
  const { dimensions, columns } = definition
  const period = sql.ref(`${alias}.${periodColumn(definition)}`)
  const same = columns
    .filter(({ name, isKey }) => isKey && dimensions.some((one) => one.name === name))
    .map(
      ({ name, type }) =>
        sql` and ${sql.ref(`${alias}.${name}`)} = (s."values"[array_position(p.dimensions, ${sql.lit(name)})])::${sql.raw(type)}`,
    )
  return sql<boolean>`exists (select from etl.units u join etl.pipelines p on p.pipeline_id = u.pipeline_id join etl.slices s on s.slice_id = u.slice_id
    where ${units}
      and ${period} >= u.window_from and ${period} < etl.window_end(u.window_from, p.window_every)${sql.join(same, sql``)})`
}
