// Lists from SQL: read before a pipeline is planned, obeyed unless they are empty or much shorter than before. Lists from files, in a long-running process:
// read again before each run, so that a person's change counts from the next run on.
import { dirname } from 'node:path'
import { readerLogin } from '../core/env.ts'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import type { Definition, Dimension, ListQuery } from '../core/types.ts'
import { type ListReading, readList } from '../db/read-list.ts'
import type { Db } from '../db/tables.ts'
import { checkValue } from '../definition/for-each.ts'
import { assertDefinitions, loadDefinitions, unreadList } from '../definition/load.ts'
import type { Source } from '../extract/source.ts'
import { dissolveHeldList, keepList, type KnownList, type ListOf, newestList, noteReading } from '../ledger/lists.ts'
import { findPipeline, lockPipeline, registerPipeline } from '../ledger/pipelines.ts'
import { sourceOf } from './plan-context.ts'
import type { PlanRuntime } from './plan-runtime.ts'

const mostValues = 1_000_000

type ListRuntime = Pick<PlanRuntime, 'database' | 'settings' | 'sources' | 'progress' | 'log'>

/** The definition with its lists filled in. What was read is remembered with the run. @param runId null: only read, nothing is written */
export const withLists = async (runtime: ListRuntime, definition: Definition, runId: number | null): Promise<Definition> => {
  if (definition.dimensions.every(({ query }) => query === undefined)) return definition
  const source = sourceOf(runtime, definition)
  const { kysely } = runtime.database
  const pipelineId =
    runId === null
      ? await findPipeline(kysely, definition)
      : (await kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))).pipelineId
  const dimensions: Dimension[] = []
  for (const dimension of definition.dimensions) {
    const { query } = dimension
    if (query === undefined) dimensions.push(dimension)
    else {
      const read = await readValues(runtime, dimension, query, source)
      const values = await obeyed(runtime, { definition, pipelineId, dimension: dimension.name, query }, read, runId)
      dimensions.push({ ...dimension, values, query: { ...query, isRead: true } })
    }
  }
  return { ...definition, dimensions }
}

type ListReader = Pick<ListRuntime, 'database' | 'settings' | 'sources'>

/** `values` null: the query failed. `message`: why, or what was left out. */
const readValues = async (runtime: ListReader, { name }: Dimension, query: ListQuery, source: Source) => {
  const readerUrl = readerLogin(runtime.settings)
  const reading: ListReading = { sql: query.sql, timeoutMs: query.timeoutMs, most: mostValues, readerUrl }
  const spec = source.dimensions[name] ?? { description: name, required: false, mostPerRequest: 1 }
  try {
    const wrong: string[] = []
    const values = new Set<string>()
    for (const text of await readList(runtime.database, reading)) {
      const checked = text === null ? { message: 'NULL is no value' } : checkValue(text, spec, source)
      if ('message' in checked) wrong.push(checked.message)
      else values.add(checked.value)
    }
    return {
      values: [...values],
      message: wrong.length === 0 ? null : `${wrong.length} values are left out: ${[...new Set(wrong)].slice(0, 3).join('; ')}`,
    }
  } catch (error) {
    if (!isEtlError(error) || error.code !== 'LIST_QUERY') throw error
    return { values: null, message: messageOf(error) }
  }
}

/** The definitions whose list files could be read; emits a notice for each other one, which asks for nothing. */
export const withReadFiles = ({ progress }: Pick<ListRuntime, 'progress'>, definitions: readonly Definition[]): Definition[] =>
  definitions.filter((definition) => {
    const wrong = unreadList(definition)
    if (wrong === null) return true
    const message = `${definition.pipeline} is skipped, since one of its lists cannot be read: ${wrong}`
    progress.emit({ event: 'notice', code: 'LIST', message })
    return false
  })

/** Each list from SQL as the next run would find it; writes nothing. `count`: values its query gives now. */
export const previewLists = async (runtime: ListReader, definition: Definition) => {
  const { kysely } = runtime.database
  const pipelineId = await findPipeline(kysely, definition)
  const tried = []
  for (const { query, ...dimension } of definition.dimensions) {
    if (query === undefined) continue
    const read = await readValues(runtime, dimension, query, sourceOf(runtime, definition))
    const { outcome, message } = await verdictOn(kysely, { definition, pipelineId, dimension: dimension.name, query }, read)
    tried.push({ dimension: dimension.name, outcome, count: read.values?.length ?? 0, message })
  }
  return tried
}

interface Place {
  readonly definition: Definition
  /** null: the pipeline was never planned. */
  readonly pipelineId: number | null
  readonly dimension: string
  readonly query: ListQuery
}

/** The values that planning uses; emits a notice where these are not all that the query gives. */
const obeyed = async (runtime: ListRuntime, place: Place, read: Read, runId: number | null): Promise<readonly string[]> => {
  const { definition, pipelineId, dimension } = place
  const { kysely } = runtime.database
  const { values, message } =
    pipelineId === null || runId === null
      ? await verdictOn(kysely, place, read)
      : await kysely.transaction().execute(async (trx) => {
          await lockPipeline(trx, pipelineId)
          const verdict = await verdictOn(trx, place, read)
          await keep(trx, { pipelineId, dimension }, runId, place, verdict, read)
          return verdict
        })
  const about = `${definition.pipeline}: the list of ${dimension}: ${message}`
  if (message !== null) runtime.progress.emit({ event: 'notice', code: 'LIST', message: about })
  return values
}

type Read = Awaited<ReturnType<typeof readValues>>

interface Verdict {
  readonly outcome: 'taken' | 'unchanged' | 'held' | 'failed'
  readonly values: readonly string[]
  readonly taken: KnownList | null
  /** The same list waits for approval already. */
  readonly isHeldAlready: boolean
  readonly came: number
  readonly gone: number
  /** Why the list is not obeyed, or which values were left out; null: neither. */
  readonly message: string | null
}

const verdictOn = async (db: Db, place: Place, read: Read): Promise<Verdict> => {
  const { pipelineId, dimension } = place
  if (pipelineId === null) return compareLists(null, null, place, read)
  const of = { pipelineId, dimension }
  return compareLists(await newestList(db, of, 'taken'), await newestList(db, of, 'held'), place, read)
}

const compareLists = (
  taken: KnownList | null,
  held: KnownList | null,
  { query, definition }: Place,
  { values, message }: Read,
): Verdict => {
  const former = taken?.values ?? []
  const stays =
    taken === null
      ? 'No earlier list is known, so nothing is loaded.'
      : `The former list of ${former.length} values stays in force.`
  const keepFormer = { values: former, taken, isHeldAlready: false, came: 0, gone: 0 }
  if (values === null) return { ...keepFormer, outcome: 'failed', message: `its query failed: ${message ?? ''} ${stays}` }
  const [before, now] = [new Set(former), new Set(values)]
  const came = values.filter((value) => !before.has(value)).length
  const gone = former.filter((value) => !now.has(value)).length
  if (taken !== null && came + gone === 0) return { ...keepFormer, outcome: 'unchanged', message }
  const isHeld = values.length === 0 || (taken !== null && gone > former.length * query.shrink && gone > 1)
  if (!isHeld) return { outcome: 'taken', values, taken, isHeldAlready: false, came, gone, message }
  const isHeldAlready = held !== null && held.values.length === now.size && held.values.every((value) => now.has(value))
  const found =
    values.length === 0
      ? 'its query gives no value'
      : `its query gives ${values.length} values, and ${gone} of ${former.length} are gone`
  const why = `${found}. ${stays} \`millrace approve ${definition.pipeline}\` accepts the new one.`
  return { ...keepFormer, outcome: 'held', isHeldAlready, came, gone, message: why }
}

const keep = async (trx: Db, of: ListOf, runId: number, { query }: Place, verdict: Verdict, read: Read): Promise<void> => {
  const { outcome, taken, came, gone, isHeldAlready, message } = verdict
  const list = { ...of, query: query.sql, values: read.values ?? [], came, gone }
  let listId = taken?.listId ?? null
  if (outcome === 'taken') listId = await keepList(trx, list, 'taken')
  else if (outcome === 'held' && !isHeldAlready) await keepList(trx, list, 'held')
  else if (outcome === 'unchanged') await dissolveHeldList(trx, of)
  const count = read.values?.length ?? null
  await noteReading(trx, {
    ...{ run_id: String(runId), pipeline_id: of.pipelineId, dimension: of.dimension, list_id: listId },
    ...{ outcome, values: count, message },
  })
}

/** Dimensions as last read, by the definition that this process began with. */
const lastRead = new WeakMap<Definition, Definition['dimensions']>()

/**
 * The definition with the values that its files have now; everything else stays as it was when the process began. Where the files cannot be read, or
 * have other dimensions, the former values count, if any, and the log says so. Throws DEFINITION where the definition is gone: then nothing is asked for.
 */
export const withCurrentLists = async (
  { sources, log }: Pick<PlanRuntime, 'sources' | 'log'>,
  definition: Definition,
): Promise<Definition> => {
  const { pipeline, version, file } = definition
  const now = await readAgain(definition, sources).catch((error: unknown) => {
    const former = { ...definition, dimensions: lastRead.get(definition) ?? definition.dimensions }
    if (unreadList(former) === null)
      log.warn({ pipeline, error: messageOf(error) }, 'the definition cannot be read; the run uses the former lists')
    return former
  })
  if (now === null)
    throw new EtlError(
      'DEFINITION',
      `${file} does not define ${pipeline} version ${version} any more: nothing is requested. Put it back, or restart this process.`,
    )
  lastRead.set(definition, now.dimensions)
  return { ...definition, dimensions: now.dimensions }
}

/** null: it is gone. Throws where it has problems, or other dimensions than this process knows. */
const readAgain = async (definition: Definition, sources: PlanRuntime['sources']): Promise<Definition | null> => {
  const { pipeline, version } = definition
  const folder = dirname(definition.file)
  const found = await loadDefinitions({ folder, sources, only: [pipeline] }).catch((error: unknown) => {
    // There is no pipeline of that name.
    if (isEtlError(error) && error.code === 'USAGE') return null
    throw error
  })
  const now = found?.definitions.find((one) => one.pipeline === pipeline && one.version === version)
  if (found === null || (now === undefined && found.problems.every(({ file }) => file === folder))) return null
  assertDefinitions(found, [pipeline])
  if (now === undefined || namesOf(now) !== namesOf(definition))
    throw new EtlError('DEFINITION', `${definition.file} names other dimensions; restart this process.`)
  return now
}

const namesOf = ({ dimensions }: Definition): string => dimensions.map(({ name }) => name).join()
