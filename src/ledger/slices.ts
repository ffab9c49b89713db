// Slices, the combinations of values that pipelines run for: since which generation of the lists each is wanted, its values, and how slices are cut into blocks.
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { query, queryColumn, queryValue, type Row, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** The values of one dimension. */
export interface ValueList {
  readonly name: string
  readonly values: readonly string[]
}

/** Digest of the lists; the order of dimensions and values does not change it. */
export const listsDigest = (lists: readonly ValueList[]): string => {
  const hash = createHash('sha256')
  for (const { name, values } of [...lists].sort((left, right) => (left.name < right.name ? -1 : 1))) {
    hash.update(`${JSON.stringify(name)}\n`)
    for (const value of [...values].sort()) hash.update(`${value}\n`)
  }
  return hash.digest('hex')
}

/** The values of `slice`, reordered from the dimensions of pipeline `from` to those of pipeline `to`: another version may have them in another order. */
export const valuesIn = (slice: string, from: string, to: string): RawBuilder<unknown> =>
  sql`array(select ${sql.ref(`${slice}.values`)}[array_position(${sql.ref(`${from}.dimensions`)}, d.name)]
    from unnest(${sql.ref(`${to}.dimensions`)}) with ordinality d (name, place) order by d.place)`

/**
 * Unit `u` is of a former version, and the later version that readers see has loaded the same unit: it needs no work here. The former versions are read once: there may
 * be 100,000 units in trouble.
 */
export const isSucceeded = sql<boolean>`(u.pipeline_id in (
    select p.pipeline_id from etl.pipelines p join etl.published_now n on n.pipeline = p.pipeline and n.version > p.version)
  and exists (select from etl.pipelines p join etl.published_now n on n.pipeline = p.pipeline
    join etl.pipelines x on x.pipeline = n.pipeline and x.version = n.version and x.window_every = p.window_every and x.parameters = p.parameters
    join etl.slices s on s.slice_id = u.slice_id join etl.slices t on t.pipeline_id = x.pipeline_id and t."values" = ${valuesIn('s', 'p', 'x')}
    join etl.units v on v.pipeline_id = x.pipeline_id and v.window_from = u.window_from and v.slice_id = t.slice_id
    where p.pipeline_id = u.pipeline_id and v.answer_id is not null))`

/** Of version `p`: readers see a later one. */
export const isFormer = sql<boolean>`exists (select from etl.published_now n where n.pipeline = p.pipeline and n.version > p.version)`

/** Every combination of the lists is wanted from `generation` on unless it was before, and nothing else is. In SQL: there may be a million. */
export const syncSlices = async (db: Db, pipelineId: number, lists: readonly ValueList[], generation: number): Promise<void> => {
  await query(db)`
    update etl.slices s set wanted_until = ${generation}
    from etl.slices x ${joined(lists, 'left join')}
    where x.pipeline_id = ${pipelineId} and x.wanted_until is null and (${anyMissing(lists)}) and s.slice_id = x.slice_id`
  await query(db)`
    update etl.slices s set wanted_since = ${generation}, wanted_until = null, night_from = null
    from etl.slices x ${joined(lists, 'join')}
    where x.pipeline_id = ${pipelineId} and x.wanted_until is not null and s.slice_id = x.slice_id`
  await query(db)`
    insert into etl.slices (pipeline_id, "values", wanted_since)
    select ${pipelineId}, w."values", ${generation} from (${combinationsOf(lists)}) w
    where not exists (select from etl.slices s where s.pipeline_id = ${pipelineId} and s."values" = w."values")
    order by w."values" collate "C"`
}

const joined = (lists: readonly ValueList[], join: 'join' | 'left join'): RawBuilder<unknown> =>
  sql.join(
    lists.map(({ values }, place) => {
      const alias = sql.ref(`d${place}`)
      return sql`${sql.raw(join)} unnest(${[...values]}::text[]) as ${alias} (v) on ${alias}.v = x."values"[${sql.lit(place + 1)}]`
    }),
    sql` `,
  )

const anyMissing = (lists: readonly ValueList[]): RawBuilder<unknown> =>
  lists.length === 0
    ? sql`false`
    : sql.join(
        lists.map((_, place) => sql`${sql.ref(`d${place}.v`)} is null`),
        sql` or `,
      )

/** Every combination of their values, as a query of one column. */
export const combinationsOf = (lists: readonly ValueList[]): RawBuilder<unknown> => {
  if (lists.length === 0) return sql`select '{}'::text[] as "values"`
  const columns = lists.map((_, place) => sql.ref(`d${place}.v`))
  const sources = lists.map(({ values }, place) => sql`unnest(${[...values]}::text[]) as ${sql.ref(`d${place}`)} (v)`)
  return sql`select array[${sql.join(columns)}] as "values" from ${sql.join(sources, sql` cross join `)}`
}

/** The slices cut into blocks of `most[i]` values of dimension i, counted among these slices alone. */
export const sliceBlocks = async (
  db: Db,
  sliceIds: readonly number[],
  most: readonly number[],
): Promise<(readonly number[])[]> => {
  if (most.length === 0 || sliceIds.length <= 1) return [sliceIds]
  const ranks = most.map((values, place) => {
    const value = sql`"values"[${sql.lit(place + 1)}] collate "C"`
    return sql`(dense_rank() over (order by ${value}) - 1) / ${sql.lit(values)} as ${sql.ref(`b${place}`)}`
  })
  const order = sql.join(most.map((_, place) => sql.ref(`b${place}`)))
  return queryColumn<Row<'etl.jobs', 'slice_ids'>>(db)`
    select array_agg(slice_id order by slice_id) as slice_ids from (
      select slice_id, ${sql.join(ranks)} from etl.slices where slice_id = any(${[...sliceIds]}::integer[])) x
    group by ${order} order by ${order}`
}

/** One value of each dimension, in the order of the pipeline's dimensions, by the slice's number. */
export const sliceValues = async (db: Db, sliceIds: readonly number[]): Promise<ReadonlyMap<number, readonly string[]>> => {
  if (sliceIds.length === 0) return new Map()
  // As one value: tens of thousands of rows would cost the server and this process more than their content.
  const slices = await queryValue<Readonly<Record<'slices', readonly (readonly [number, readonly string[]])[] | null>>>(db)`
    select json_agg(json_build_array(slice_id, "values")) as slices from etl.slices where slice_id = any(${[...sliceIds]}::integer[])`
  return new Map(slices)
}

/** Each half is every combination of its values again. @param by place of the dimension that is cut; default: the one with most values */
export const halvesOfSlices = (slices: ReadonlyMap<number, readonly string[]>, by?: number): readonly (readonly number[])[] => {
  const [first] = slices.values()
  const lists = (first ?? []).map((_, place) => [...new Set([...slices.values()].map((values) => values[place] ?? ''))].sort())
  const place = by ?? lists.reduce((best, list, index) => (list.length > (lists[best]?.length ?? 0) ? index : best), 0)
  const list = lists[place] ?? []
  const left = new Set(list.slice(0, Math.ceil(list.length / 2)))
  const halves = Map.groupBy(slices.keys(), (id) => left.has(slices.get(id)?.[place] ?? ''))
  return [...halves.values()]
}

/** Values of one dimension that some wanted slice has. @param place of the dimension */
export const wantedValues = (db: Db, pipelineId: number, place: number): Promise<string[]> =>
  queryColumn<Texts<'value'>>(db)`
    select distinct s."values"[${sql.lit(place + 1)}] as value from etl.slices s
    where s.pipeline_id = ${pipelineId} and s.wanted_until is null`

/** How many slices the lists have, by the generation since which they have them. */
type WantedSince = ReadonlyMap<number, number>

const counted = new WeakMap<Db, Map<string, Promise<WantedSince>>>()

/** Counted once a generation, since there may be a million slices; every change of the lists begins a new generation. */
const wantedSince = (db: Db, pipeline: Row<'etl.pipelines', 'pipeline_id' | 'generation'>): Promise<WantedSince> => {
  const known = counted.get(db) ?? new Map<string, Promise<WantedSince>>()
  counted.set(db, known)
  const key = `${pipeline.pipeline_id}/${pipeline.generation}`
  const before = known.get(key)
  if (before !== undefined) return before
  const asked = countWanted(db, pipeline.pipeline_id)
  known.set(key, asked)
  // A failed count is forgotten: the next call tries again.
  asked.catch(() => known.delete(key))
  return asked
}

/** How many slices the lists have. @param at only those that they have had since this generation or an earlier one */
export const slicesWanted = async (
  db: Db,
  pipeline: Row<'etl.pipelines', 'pipeline_id' | 'generation'>,
  at = Infinity,
): Promise<number> => {
  const wanted = await wantedSince(db, pipeline)
  return [...wanted].reduce((total, [since, slices]) => (since <= at ? total + slices : total), 0)
}

const countWanted = async (db: Db, pipelineId: number): Promise<WantedSince> => {
  const rows = await db
    .selectFrom('etl.slices as s')
    .select(['s.wanted_since', sql<number>`count(*)::float8`.as('slices')])
    .where((eb) => eb.and({ 's.pipeline_id': pipelineId, 's.wanted_until': null }))
    .groupBy('s.wanted_since')
    .execute()
  return new Map(rows.map(({ wanted_since, slices }) => [wanted_since, slices]))
}
