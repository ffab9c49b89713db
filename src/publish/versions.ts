// The versions of a pipeline as one series: when each was published, and which cells of a former version still count because the published one has no answer
// for them. After a pipeline's end its successor's series follows.
import { type RawBuilder, sql } from 'kysely'
import { columnTypes, isTypeName } from '../core/column-types.ts'
import type { Definition } from '../core/types.ts'
import { relationColumns } from '../db/catalog.ts'
import { query, type Row, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** A span of time in which readers saw a former version. */
export interface FormerSpan {
  readonly version: number
  /** The moment it was published, as text; null: it was the first. */
  readonly from: string | null
  readonly to: string
  /** The last span of this version: its rows still count for cells that the published version has no answer for. */
  readonly isLastSpan: boolean
  /** Columns of the published version that can hold every value of the same column in this version. */
  readonly columns: ReadonlySet<string>
}

export interface Series {
  /** The moment the version was published, as text; null: there was none before. */
  readonly since: string | null
  /** Oldest first; without versions that have another key. */
  readonly former: readonly FormerSpan[]
  /** Versions with cells that count, or once counted, beside a later version. */
  readonly kept: ReadonlySet<number>
  /** Former versions whose tables exist, also with another key. */
  readonly readable: readonly number[]
  /** The successor now; null: none. */
  readonly next: Successor | null
  /** Which pipelines' rows readers saw, span after span up to now; empty where the pipeline never had a successor. */
  readonly standings: readonly ShownSpan[]
}

/** A span of time in which readers saw the rows of the same pipelines. */
export interface ShownSpan {
  /** As text; null: there was none before. */
  readonly since: string | null
  /** null: it lasts. */
  readonly to: string | null
  /** The successor in this span and its first day; null: none. */
  readonly by: { readonly pipeline: string; readonly from: string } | null
  /** The present state of that successor; null: none, or it can no longer be shown. */
  readonly next: Successor | null
}

/** The successor of a pipeline that ended. */
interface Successor {
  readonly definition: Definition
  readonly series: Series
  /** The first day whose rows come from the successor. */
  readonly from: string
  /** Columns of the ended pipeline that can hold every value of the successor's column. */
  readonly columns: ReadonlySet<string>
}

/** Records that readers see this version from now on, and which cells of the former version still count. Idempotent. */
export const recordVersion = async (trx: Db, { pipeline, version, window }: Definition): Promise<void> => {
  const [last] = await query<Row<'etl.published_versions', 'version'>>(trx)`
    select version from etl.published_versions where pipeline = ${pipeline} order by published_at desc limit 1`
  if (last?.version === version) return
  if (last !== undefined)
    await sql`update etl.kept_units k set until = c.until from etl.kept_cells c
      where c.unit_id = k.unit_id and c.since = k.since and k.pipeline = ${pipeline} and k.until is null and c.until is not null`.execute(
      trx,
    )
  await sql`insert into etl.published_versions (pipeline, version, published_at)
    values (${pipeline}, ${version}, ${nextMoment('published_versions', 'published_at', pipeline)})`.execute(trx)
  if (last === undefined) return
  await sql`insert into etl.kept_units (unit_id, pipeline, version, window_from, cell, since)
    select u.unit_id, p.pipeline, p.version, u.window_from, etl.slice_of(p.dimensions, s."values") || p.parameters, v.published_at
    from etl.pipelines p join etl.units u on u.pipeline_id = p.pipeline_id and u.answer_id is not null join etl.slices s on s.slice_id = u.slice_id
      join etl.published_now v on v.pipeline = p.pipeline
    where p.pipeline = ${pipeline} and p.version = ${last.version} and p.window_every = ${window.every}`.execute(trx)
  // A kept unit ends now where the new version has an answer for its cell, or where its own version is the published one again.
  await query(trx)`update etl.kept_units k set until = v.published_at from etl.kept_cells c, etl.published_now v
    where c.unit_id = k.unit_id and c.since = k.since and v.pipeline = k.pipeline and k.pipeline = ${pipeline} and k.until is null
      and (c.until is not null or k.version = v.version)`
  await trx.deleteFrom('etl.kept_units').where('pipeline', '=', pipeline).whereRef('until', '<=', 'since').execute()
}

/**
 * Records which successor's rows readers see from now on in place of the pipeline's own. Idempotent. Returns the first day whose rows now come from another
 * pipeline; null: nothing changed. @param all definitions that are published
 */
export const recordHandOver = async (trx: Db, definition: Definition, all: readonly Definition[]): Promise<string | null> => {
  const { pipeline } = definition
  const next = nextOf(definition, definition.successor, all)
  const from = next === null ? null : (definition.window.publication.until ?? null)
  const [successor, startsOn] = from === null ? [null, null] : [next?.definition.pipeline ?? null, from]
  const [last] = await query<Row<'etl.hand_overs', 'successor' | 'starts_on'>>(trx)`
    select successor, starts_on from etl.hand_overs where pipeline = ${pipeline} order by since desc limit 1`
  if (last !== undefined && last.successor === successor && last.starts_on === startsOn) return null
  await query(trx)`insert into etl.hand_overs (pipeline, successor, starts_on, since)
    values (${pipeline}, ${successor}, ${startsOn}, ${nextMoment('hand_overs', 'since', pipeline)})`
  return [startsOn, last?.starts_on ?? null].filter((day) => day !== null).sort()[0] ?? null
}

/** -infinity for the first record; else now, but later than every record, since the clock may have been set back. */
const nextMoment = (table: string, column: string, pipeline: string): RawBuilder<unknown> =>
  sql`(select case when count(*) = 0 then '-infinity' else greatest(clock_timestamp(), max(${sql.ref(column)}) + interval '1 microsecond') end
    from ${sql.table(`etl.${table}`)} where pipeline = ${pipeline})`

/** The successor's definition; null: it is not published, or its key differs. */
const nextOf = (
  { key, columns }: Definition,
  successor: string | undefined,
  all: readonly Definition[],
): Pick<Successor, 'definition' | 'columns'> | null => {
  const next = all.find(({ pipeline, publish }) => publish && pipeline === successor)
  if (next === undefined || [...key].sort().join() !== [...next.key].sort().join()) return null
  const types = new Map(next.columns.map(({ name, type }) => [name, type]))
  const same = new Set(columns.filter(({ name, type }) => holds(type, types.get(name))).map(({ name }) => name))
  return key.every((name) => same.has(name)) ? { definition: next, columns: same } : null
}

type Span = Texts<'from' | 'to'> & Row<'etl.published_versions', 'version'>

/** The recorded series with its successors. @param all definitions that are published */
export const continuedSeries = async (trx: Db, definition: Definition, all: readonly Definition[]): Promise<Series> => {
  const others = all.filter((one) => one !== definition)
  const rows = await query<Texts<'since' | 'to'> & Row<'etl.hand_overs', 'successor' | 'starts_on'>>(trx)`
    select successor, starts_on, ${text(sql`since`)} as since, coalesce(${text(sql`lead(since) over (order by since)`)}, '') as "to"
    from etl.hand_overs where pipeline = ${definition.pipeline} order by since`
  const standings: ShownSpan[] = []
  for (const { successor, starts_on: from, since, to } of rows) {
    const by = successor === null || from === null ? null : { pipeline: successor, from }
    const one = by === null ? null : nextOf(definition, by.pipeline, others)
    const next =
      one === null || by === null ? null : { ...one, series: await continuedSeries(trx, one.definition, others), from: by.from }
    standings.push({ since: since === '' ? null : since, to: to === '' ? null : to, by, next })
  }
  const wasContinued = standings.some(({ by }) => by !== null)
  return { ...(await seriesOf(trx, definition)), next: standings.at(-1)?.next ?? null, standings: wasContinued ? standings : [] }
}

/** SQL for a time as text; empty: -infinity or infinity. */
const text = (moment: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`case when isfinite(${moment}) then to_char(${moment} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00' else '' end`

/** The recorded series without successors. */
export const seriesOf = async (trx: Db, definition: Definition): Promise<Series> => {
  const { pipeline } = definition
  const rows = await query<Span>(trx)`select version, ${text(sql`published_at`)} as "from",
      coalesce(${text(sql`lead(published_at) over (order by published_at)`)}, '') as "to"
    from etl.published_versions where pipeline = ${pipeline} order by published_at`
  const own = rows.at(-1)
  const kept = await trx.selectFrom('etl.kept_units').select('version').distinct().where('pipeline', '=', pipeline).execute()
  const former: FormerSpan[] = []
  const readable = new Set<number>()
  for (const [at, { version, from, to }] of rows.slice(0, -1).entries()) {
    const table = await tableOf(trx, definition, version)
    if (table !== null && version !== definition.version) readable.add(version)
    const columns =
      version === definition.version ? new Set(definition.columns.map(({ name }) => name)) : shared(definition, table)
    if (columns === null) continue
    const isLastSpan = version !== definition.version && !rows.slice(at + 1).some((later) => later.version === version)
    former.push({ version, from: from === '' ? null : from, to, isLastSpan, columns })
  }
  return {
    since: own === undefined || own.from === '' ? null : own.from,
    former,
    kept: new Set(kept.map(({ version }) => version)),
    readable: [...readable].sort((a, b) => a - b),
    next: null,
    standings: [],
  }
}

type TableColumns = NonNullable<Awaited<ReturnType<typeof tableOf>>>

/** The table's columns and key; null: the table does not exist. */
const tableOf = async (trx: Db, { pipeline, version: published }: Definition, version: number) => {
  const columnsOf = async (number: number): Promise<ReadonlyMap<string, string>> =>
    new Map((await relationColumns(trx, `data.${pipeline}_v${number}`)).map(({ name, type }) => [name, type]))
  const types = await columnsOf(version)
  if (types.size === 0) return null
  const rows = await query<Texts<'name'>>(trx)`select a.attname as name from pg_index i
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indrelid = to_regclass(${`data.${pipeline}_v${version}`}) and i.indisprimary`
  return { types, wanted: await columnsOf(published), key: rows.map(({ name }) => name) }
}

/** Columns that both versions share; null: the keys differ, so that the rows cannot be shown together. */
const shared = ({ key, columns }: Definition, table: TableColumns | null): ReadonlySet<string> | null => {
  if (table === null) return null
  const { types, wanted, key: formerKey } = table
  const goesOn = (name: string): boolean => holds(wanted.get(name), types.get(name))
  if ([...key].sort().join() !== [...formerKey].sort().join() || !key.every(goesOn)) return null
  return new Set(columns.map(({ name }) => name).filter(goesOn))
}

const holds = (type: string | undefined, former: string | undefined): boolean =>
  type !== undefined &&
  former !== undefined &&
  (type === former || (isTypeName(type) && columnTypes[type].holds.includes(former)))

/** Former versions of which cells still count. */
export const stillCounted = ({ former, kept }: Series): readonly FormerSpan[] =>
  former.filter(({ version, isLastSpan }) => isLastSpan && kept.has(version))

/** The query of units of a former version that still count. */
export const keptUnits = ({ pipeline }: Definition, version: number): RawBuilder<unknown> =>
  sql`select k.unit_id from etl.kept_cells k where k.pipeline = ${sql.lit(pipeline)} and k.version = ${sql.lit(version)} and not k.is_over`
