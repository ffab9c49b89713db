// Pipelines in the ledger: their identity, their lists, and what fetching needs of their definition. A planner locks the pipeline's row.
import { type Insertable, type RawBuilder, sql } from 'kysely'
import { requestDigest, metricsOf } from '../core/request-digest.ts'
import { expectationOf } from '../core/data-test.ts'
import { EtlError } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition, ParamValue } from '../core/types.ts'
import { databaseNow } from '../db/database-clock.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db, PipelinesTable } from '../db/tables.ts'
import type { Row } from '../db/typed-row.ts'
import type { Claimable } from './wait-list.ts'
import { listsDigest, syncSlices, type ValueList } from './slices.ts'

/** The pipeline's number and the generation of its lists. */
export interface RegisteredPipeline {
  readonly pipelineId: number
  /** Grows whenever the lists change. */
  readonly generation: number
  /** This change of the lists has undone the change before. */
  readonly isBackAgain?: boolean
  /** Names, in the order of a slice's values. */
  readonly dimensions: readonly string[]
}

/** Parameters that are part of the key: they tell one pipeline's units from another's. */
export const keyParameters = ({ params, key }: Definition): Readonly<Record<string, ParamValue>> =>
  Object.fromEntries(Object.entries(params).filter(([name]) => key.includes(name)))

/** The row of that version and of those key parameters. */
export const isSamePipeline = (definition: Definition): RawBuilder<boolean> =>
  sql<boolean>`pipeline = ${definition.pipeline} and version = ${definition.version}
    and parameters = ${JSON.stringify(keyParameters(definition))}::jsonb`

/** Its number; null where it was never planned. */
export const findPipeline = async (db: Db, definition: Definition): Promise<number | null> => {
  const row = await db.selectFrom('etl.pipelines').select('pipeline_id').where(isSamePipeline(definition)).executeTakeFirst()
  return row?.pipeline_id ?? null
}

/** Pipelines that ask the same take turns while each checks what the others have approved or planned. Call before locking any pipeline. */
export const lockQuestion = (trx: Db, asks: string): Promise<void> => lockByName(trx, `question ${asks}`)

/** Locks all versions of the pipelines, in the order in which every process locks several. */
export const lockVersions = async (trx: Db, pipelines: readonly string[]): Promise<void> => {
  const known = trx.selectFrom('etl.pipelines').select('pipeline_id').orderBy('pipeline_id').forNoKeyUpdate()
  await known.where((eb) => eb('pipeline', '=', eb.fn.any(eb.val([...pipelines])))).execute()
}

/** Makes other planners of the pipeline wait until the transaction ends; loads and claims do not. */
export const lockPipeline = async (trx: Db, pipelineId: number): Promise<void> => {
  await trx.selectFrom('etl.pipelines').select('pipeline_id').where('pipeline_id', '=', pipelineId).forNoKeyUpdate().execute()
}

/**
 * Records the pipeline as the definition has it now, and locks it until the transaction ends. Its slices follow the lists where their values have changed.
 * Throws DEFINITION where units were made for other dimensions or another size of window.
 */
export const registerPipeline = async (trx: Db, definition: Definition, source: SourceSpec): Promise<RegisteredPipeline> => {
  const needs = JSON.stringify(fetchingNeeds(definition))
  const names = definition.dimensions.map(({ name }) => name)
  const { account } = definition
  const tests = JSON.stringify(testsOf(definition))
  await makePipeline(trx, definition)
  const row = await trx
    .selectFrom('etl.pipelines')
    .select(['pipeline_id', 'window_every', 'dimensions', 'generation', 'lists_sha256', 'former_lists_sha256'])
    .select(
      sql<boolean>`definition -> 'params' -> 'top' is distinct from ${needs}::jsonb -> 'params' -> 'top'`.as('wants_other_top'),
    )
    .where(isSamePipeline(definition))
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
  const isReshaped = !hasShape(definition, row)
  if (isReshaped) await forgetUnasked(trx, definition, row.pipeline_id)
  if (row.wants_other_top) await openWindows(trx, row.pipeline_id)
  const tagSet = await tagSetOf(trx, definition.tags)
  await trx
    .updateTable('etl.pipelines')
    .set({ source: source.name, account, definition: needs, tests, tag_set_id: tagSet, updated_at: databaseNow })
    .where('pipeline_id', '=', row.pipeline_id)
    .where(
      sql<boolean>`(source, account, definition, tests, tag_set_id) is distinct from (${source.name}, ${account}, ${needs}::jsonb, ${tests}::jsonb, ${tagSet})`,
    )
    .execute()
  const dimensions = isReshaped ? names : row.dimensions
  // Where a list was not read its values are unknown: the wanted slices stay as they are.
  const isKnown = definition.dimensions.every(
    ({ query, unread }) => unread === undefined && (query === undefined || query.isRead === true),
  )
  if (!isKnown) return { pipelineId: row.pipeline_id, dimensions, generation: row.generation }
  const valuesOf = (name: string) => definition.dimensions.find((one) => one.name === name)?.values ?? []
  const lists = dimensions.map((name) => ({ name, values: valuesOf(name) }))
  const known = isReshaped ? { ...row, lists_sha256: null } : row
  return { pipelineId: row.pipeline_id, dimensions, ...(await followLists(trx, known, lists)) }
}

/** The same as `insertPipeline`. */
export const makePipeline = (trx: Db, definition: Definition): Promise<void> =>
  insertPipeline(trx, {
    ...{ pipeline: definition.pipeline, version: definition.version, parameters: keyParameters(definition) },
    ...{ source: definition.source, account: definition.account, window_every: definition.window.every },
    ...{ dimensions: definition.dimensions.map(({ name }) => name), definition: fetchingNeeds(definition) },
  })

/** Whether its lists were recorded at least once. */
export const isPlanned = async (db: Db, definition: Definition): Promise<boolean> => {
  const planned = db
    .selectFrom('etl.pipelines')
    .select('pipeline_id')
    .where(isSamePipeline(definition))
    .where('generation', '>', 0)
  return (await planned.executeTakeFirst()) !== undefined
}

/** Inserts its row where there is none of that version and those key parameters; the next plan records its lists. */
export const insertPipeline = async (
  trx: Db,
  { pipeline, version, parameters, source, account, window_every, dimensions, definition }: PipelineRow,
): Promise<void> => {
  await trx
    .insertInto('etl.pipelines')
    .values({
      ...{ pipeline, version, source, account, window_every, dimensions: [...dimensions] },
      ...{ parameters: JSON.stringify(parameters), definition: JSON.stringify(definition) },
    })
    .onConflict((on) => on.columns(['pipeline', 'version', 'parameters']).doNothing())
    .execute()
}

export type PipelineRow = Pick<Insertable<PipelinesTable>, 'pipeline' | 'version' | 'source' | 'account' | 'window_every'> &
  Readonly<Record<'parameters' | 'definition', unknown>> & { readonly dimensions: readonly string[] }

/** Opens closed windows: the definition now wants another number of first rows of their loaded units. */
const openWindows = async (trx: Db, pipelineId: number): Promise<void> => {
  await trx
    .updateTable('etl.windows')
    .set({ closed_generation: null, closed_at: null, closed_units: null, closed_rows: null })
    .where('pipeline_id', '=', pipelineId)
    .where('closed_generation', 'is not', null)
    .execute()
}

/** Whether any pipeline ever asked for first rows only. */
export const everAskedForTop = async (db: Db): Promise<boolean> => {
  const row = await db
    .selectFrom('etl.answer_shapes')
    .select('shape_id')
    .where('top_rows', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

const followLists = async (
  trx: Db,
  { pipeline_id, generation, lists_sha256, former_lists_sha256 }: KnownLists,
  lists: readonly ValueList[],
): Promise<Pick<RegisteredPipeline, 'generation' | 'isBackAgain'>> => {
  const digest = listsDigest(lists)
  if (digest === lists_sha256) return { generation }
  await syncSlices(trx, pipeline_id, lists, generation + 1)
  await trx
    .updateTable('etl.pipelines')
    .set({ generation: generation + 1, lists_sha256: digest, former_lists_sha256: lists_sha256 })
    .where('pipeline_id', '=', pipeline_id)
    .execute()
  return { generation: generation + 1, isBackAgain: digest === former_lists_sha256 }
}

type KnownLists = Row<'etl.pipelines', 'pipeline_id' | 'generation' | 'lists_sha256' | 'former_lists_sha256'>

type Shape = Row<'etl.pipelines', 'window_every' | 'dimensions'>

const hasShape = ({ window, dimensions }: Definition, former: Shape): boolean =>
  former.window_every === window.every &&
  [...former.dimensions].sort().join() ===
    dimensions
      .map(({ name }) => name)
      .sort()
      .join()

/** Why existing units, made for other dimensions or another size of window, conflict with the definition; null: they do not. */
export const shapeConflict = async (db: Db, definition: Definition): Promise<string | null> => {
  const { pipeline, window, dimensions } = definition
  const former = await db
    .selectFrom('etl.pipelines')
    .select(['window_every', 'dimensions'])
    .where(isSamePipeline(definition))
    .where((eb) =>
      eb.exists(eb.selectFrom('etl.units as u').select('u.unit_id').whereRef('u.pipeline_id', '=', 'etl.pipelines.pipeline_id')),
    )
    .executeTakeFirst()
  if (former === undefined || hasShape(definition, former)) return null
  const names = dimensions.map(({ name }) => name)
  return former.window_every === window.every
    ? `for_each of ${pipeline} names [${names.join(', ')}], but its units were made for [${former.dimensions.join(', ')}]. ` +
        'Rows of both would mix in one table: raise version in the definition and write its migration.'
    : `${pipeline} loads a ${window.every} at a time, but its units were made for windows of a ${former.window_every}. ` +
        'Two sizes would overlap in one table: write the former window.every, or raise version and write its migration.'
}

/** Takes over other dimensions or windows while the pipeline has no units: deletes its slices and windows. Throws DEFINITION where it has units. */
const forgetUnasked = async (trx: Db, definition: Definition, pipeline_id: number): Promise<void> => {
  const conflict = await shapeConflict(trx, definition)
  if (conflict !== null) throw new EtlError('DEFINITION', conflict)
  const names = definition.dimensions.map(({ name }) => name)
  await trx.deleteFrom('etl.slices').where('pipeline_id', '=', pipeline_id).execute()
  await trx.deleteFrom('etl.windows').where('pipeline_id', '=', pipeline_id).execute()
  await trx
    .updateTable('etl.pipelines')
    .set({ window_every: definition.window.every, dimensions: names })
    .where('pipeline_id', '=', pipeline_id)
    .execute()
}

/** The part of a definition that fetching needs, and its successor: without the lists, the table and the schedule. */
export const fetchingNeeds = (definition: Definition) => {
  const { file, params, limits, report, window, successor } = definition
  return { file, params, limits, report, window, successor, metrics: metricsOf(definition) }
}

const testsOf = ({ tests }: Definition) =>
  tests.map((test) => ({ name: test.name, column: test.column, expects: expectationOf(test), on_failure: test.onFailure }))

export type FetchingNeeds = ReturnType<typeof fetchingNeeds>

/**
 * The definition of the last plan as far as asking, polling and downloading need it: without lists and table. Throws INTERNAL where the ledger has no
 * such pipeline.
 */
export const storedDefinition = async (db: Db, pipelineId: number): Promise<Definition> => {
  const row = await db
    .selectFrom('etl.pipelines')
    .select(['pipeline', 'version', 'source', 'account', 'dimensions'])
    // Written above, by this program or an older one of the same ledger.
    .select((eb) => eb.ref('definition').$castTo<FetchingNeeds>().as('needs'))
    .where('pipeline_id', '=', pipelineId)
    .executeTakeFirst()
  if (row === undefined)
    throw new EtlError('INTERNAL', `The ledger has no pipeline ${pipelineId}, but jobs of it; please report this defect.`)
  const { pipeline, version, source, account } = row
  const { file, params, limits, report, window, metrics } = row.needs
  return {
    ...{ file, pipeline, version, source, account, params, limits, report, window },
    ...{ description: '', schedule: null, guard: null, tags: {}, expect: null, publish: false },
    ...{ key: [], indexes: [], tests: [], dimensionTables: [] },
    dimensions: row.dimensions.map((name) => ({ name, values: [], bucket: null, file: null })),
    columns: metrics.map((name) => measure(name)),
    period: { every: window.every, isInKey: false },
  }
}

const measure = (name: string): Definition['columns'][number] => ({
  ...{ name, type: 'text', isKey: false, nullable: true, description: '', unit: null, origin: 'response', from: [name] },
  ...{ ifAbsent: null, normalize: null, rounding: null },
})

/** What a recorded pipeline asks; null: its definition is not recorded. */
export const asksOnRecord = (source: string, { params, window }: Partial<FetchingNeeds>): string | null =>
  params === undefined || window === undefined ? null : requestDigest({ source, params, window })

/** What a process with these definitions and sources may take. Pipelines that were never planned are left out: they have no jobs. */
export const claimableOf = async (
  db: Db,
  definitions: readonly Definition[],
  sources: ReadonlyMap<string, unknown>,
): Promise<Claimable> => {
  const ids = (rows: readonly { pipeline_id: number }[]): number[] => rows.map((row) => row.pipeline_id)
  const pipelines = db.selectFrom('etl.pipelines').select(['pipeline_id', 'source']).orderBy('pipeline_id')
  const fetch = await pipelines
    .select((eb) => eb.ref('definition').$castTo<Partial<FetchingNeeds>>().as('needs'))
    .where((eb) => eb('source', '=', eb.fn.any(eb.val([...sources.keys()]))))
    .execute()
  const load =
    definitions.length === 0 ? [] : await pipelines.where((eb) => eb.or(definitions.map((one) => isSamePipeline(one)))).execute()
  const asked = new Set(definitions.map(requestDigest))
  const same = fetch.filter(({ source, needs }) => asked.has(asksOnRecord(source, needs) ?? ''))
  return { load: ids(load), fetch: ids(fetch), same: ids(same) }
}

/** Pipelines that have bought no report: their answers, if any, were read page by page. */
export const walkPipelines = (db: Db) =>
  db
    .selectFrom('etl.pipelines as p')
    .leftJoin('etl.jobs as j', (join) => join.onRef('j.pipeline_id', '=', 'p.pipeline_id').on('j.kind', '=', 'report'))
    .select(['p.pipeline', 'p.version', 'p.account', 'p.window_every'])
    .where('j.job_id', 'is', null)
    .distinct()
    .execute()

/** The number of the tag set; a new set is inserted. */
export const tagSetOf = async (trx: Db, tags: Readonly<Record<string, string>>): Promise<number> => {
  const text = JSON.stringify(tags)
  const known = () =>
    trx.selectFrom('etl.tag_sets').select('tag_set_id').where(sql<boolean>`tags = ${text}::jsonb`).executeTakeFirst()
  const found = await known()
  if (found !== undefined) return found.tag_set_id
  await trx
    .insertInto('etl.tag_sets')
    .values({ tags: text })
    .onConflict((on) => on.column('tags').doNothing())
    .execute()
  return (await known())?.tag_set_id ?? 1
}
