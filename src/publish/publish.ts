// Makes the schema people query match the definitions: views, functions, comments and rights, without ever taking a view away.
import { setTimeout } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import { EtlError, messageOf } from '../core/errors.ts'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { lockByName } from '../db/named-lock.ts'
import { inPatientTransaction, type Patience } from '../db/patience.ts'
import type { Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { columnNames } from '../db/catalog.ts'
import { columnComment, commentOn, dimensionWords, freshnessComments, grainOf, lineageComments } from './comments.ts'
import { type MartReaders, needsOneTransaction, noReaders, openMartReaders } from './mart-readers.ts'
import { prepareSummaries, publishMart } from './publish-marts.ts'
import { grantReader } from './reader-role.ts'
import { replaceView } from './replace-view.ts'
import {
  asOfFunction,
  asOfName,
  currentView,
  freshnessView,
  historyColumns,
  historyView,
  tableColumns,
  viewColumns,
} from './views.ts'
import { changesVersion, continuedSeries, recordVersion } from './versions.ts'

/**
 * Idempotent, safe when twins run it at once. Each pipeline is published in one transaction, so a reader sees the old view or the new. A view that changes
 * its columns waits for who reads it, with `patience`; then DATABASE names them.
 */
export const publish = async (
  database: Database,
  definitions: readonly Definition[],
  marts: readonly Mart[] = [],
  { onMarts, ...patience }: PublishOptions = {},
): Promise<string[]> => {
  const step: Step = (what, work) =>
    inPatientTransaction(database, `publish ${what}`, patience, async (trx) => {
      await lockByName(trx, 'publish')
      return work(trx)
    })
  try {
    if (await changesVersion(database.kysely, definitions)) throw needsOneTransaction
    return await inSteps(step, definitions, marts, { onMarts, readers: null })
  } catch (error) {
    if (error !== needsOneTransaction) throw error
    return step('views that change their shape, with the marts that read them', (trx) =>
      within(trx, definitions, marts, { ...patience, onMarts }),
    )
  }
}

/** The same as part of a transaction: what was changed before it in there stands or goes with it. Returns the marts. */
export const publishWithin = async (
  trx: Db,
  definitions: readonly Definition[],
  marts: readonly Mart[],
  patience: Patience = {},
): Promise<string[]> => {
  await lockByName(trx, 'publish')
  return within(trx, definitions, marts, patience)
}

const within = (
  trx: Db,
  definitions: readonly Definition[],
  marts: readonly Mart[],
  { onMarts, waitMs = longestReaderMs }: PublishOptions,
): Promise<string[]> => inSteps((_, work) => work(trx), definitions, marts, { onMarts, readers: openMartReaders(marts), waitMs })

/** A reader in the way of one step is waited for without giving up those before: summaries were filled, which may have taken minutes. */
const patiently = async <T>(trx: Db, waitMs: number, work: (trx: Db) => Promise<T>): Promise<T> => {
  const until = performance.now() + waitMs
  for (;;) {
    await sql`savepoint publish_step`.execute(trx)
    try {
      const result = await work(trx)
      await sql`release savepoint publish_step`.execute(trx)
      return result
    } catch (error) {
      if (sqlStateOf(error) !== '55P03' || performance.now() > until) throw error
      await sql`rollback to savepoint publish_step`.execute(trx)
      await setTimeout(retryEveryMs)
    }
  }
}

/** How long a reader's statement may take. */
const longestReaderMs = 60_000
const retryEveryMs = 300

/** How long is waited for readers of what changes, and what happens where the marts are published. */
interface PublishOptions extends Patience {
  /** In the same transaction, with the names of those that were. */
  readonly onMarts?: ((trx: Db, published: readonly string[]) => Promise<void>) | undefined
}

interface Around {
  readonly onMarts: PublishOptions['onMarts'] | undefined
  /** null: each step is a transaction of its own. */
  readonly readers: MartReaders | null
  readonly waitMs?: number
}

type Step = <T>(what: string, work: (trx: Db) => Promise<T>) => Promise<T>

const inSteps = async (
  step: Step,
  definitions: readonly Definition[],
  marts: readonly Mart[],
  { onMarts, readers, waitMs = longestReaderMs }: Around,
): Promise<string[]> => {
  // First what takes long: it has no readers yet, while readers of what is replaced below wait until its transaction ends.
  const ahead = readers === null ? null : await step('the summaries', (trx) => prepareSummaries(trx, marts, definitions))
  const isLong = ahead !== null && ahead.size > 0
  const go: Step = isLong ? (what, work) => step(what, (trx) => patiently(trx, waitMs, work)) : step
  await go('what all pipelines share', async (trx) => {
    await publishShared(trx, definitions, readers ?? noReaders)
    await grantReader(trx)
  })
  for (const definition of definitions.filter((one) => one.publish)) {
    await go(`bi.${definition.pipeline}`, (trx) => publishOne(trx, definition, definitions, readers ?? noReaders)).catch(
      (error: unknown) => {
        throw publishError(error, definition)
      },
    )
  }
  return go('the marts', async (trx) => {
    const published: string[] = []
    const how = {
      readers: readers ?? openMartReaders(marts),
      summaries: ahead ?? (await prepareSummaries(trx, marts, definitions)),
    }
    for (const mart of marts) if (await publishMart(trx, mart, definitions, how)) published.push(mart.name)
    await grantReader(trx)
    await onMarts?.(trx, published)
    return published
  })
}

const publishError = (error: unknown, { pipeline }: Definition): unknown => {
  if ((error as { code?: string }).code !== '2BP01') return error
  return new EtlError(
    'CONFIGURATION',
    `bi.${pipeline} changes its shape, but other objects depend on it: ${messageOf(error)}. Drop those first, migrate, and make them again.`,
    { cause: error },
  )
}

type Readers = Pick<MartReaders, 'dropOf'>

const publishShared = async (trx: Db, definitions: readonly Definition[], readers: Readers): Promise<void> => {
  await sql`create schema if not exists bi`.execute(trx)
  const comments: readonly [string, string][] = [
    ['bi', 'What people and BI tools read: current rows, every revision, freshness. NULL means no data, never 0.'],
    ['data', 'The tables behind bi. Read bi instead: names here carry versions.'],
    ['etl', 'The ledger: runs, units, reports, requests, loads, quota, quarantine.'],
  ]
  for (const [schema, text] of comments) await commentOn('schema', sql.id(schema), text).execute(trx)
  await replaceView(trx, 'freshness', freshnessView, () => readers.dropOf(trx, 'freshness'))
  await commentOn(
    'view',
    sql.table('bi.freshness'),
    'How fresh each pipeline is: newest loaded window, last load, units by state. One row per pipeline and version.',
  ).execute(trx)
  for (const [column, text] of Object.entries(freshnessComments))
    await commentOn('column', sql.ref(`bi.freshness.${column}`), text).execute(trx)
  for (const { name, about, columns } of dimensionWords(definitions)) {
    await commentOn('table', sql.table(`bi.${name}`), about).execute(trx)
    for (const [column, text] of Object.entries(columns))
      await commentOn('column', sql.ref(`bi.${name}.${column}`), text).execute(trx)
  }
}

const publishOne = async (trx: Db, definition: Definition, all: readonly Definition[], readers: Readers): Promise<void> => {
  const { pipeline } = definition
  await recordVersion(trx, definition)
  const series = await continuedSeries(trx, definition, all)
  // The function returns the view's rows, so it goes with the view and is made again after it.
  const clear = async (view: string): Promise<void> => {
    await readers.dropOf(trx, `${pipeline}_as_of(timestamptz)`)
    await sql`drop function if exists ${asOfName(definition)}(timestamptz)`.execute(trx)
    await readers.dropOf(trx, view)
  }
  await replaceView(trx, pipeline, currentView(definition, series), () => clear(pipeline))
  await replaceView(trx, `${pipeline}_history`, historyView(definition, series), () => clear(`${pipeline}_history`))
  await asOfFunction(definition).execute(trx)
  await publishFormer(trx, definition, series.readable)
  await commentTables(trx, definition)
  const about = `${definition.description} ${grainOf(definition)}`
  await commentObject(trx, definition, 'view', sql.table(`bi.${pipeline}`), about, viewColumns(definition))
  await commentObject(
    trx,
    definition,
    'view',
    sql.table(`bi.${pipeline}_history`),
    `Every revision of bi.${pipeline}, ended ones included. ${about}`,
    historyColumns(definition),
  )
  await commentOn(
    'function',
    sql`${asOfName(definition)}(timestamptz)`,
    `The rows of bi.${pipeline} as they were believed at the given moment.`,
  ).execute(trx)
}

/** Former versions stay readable under their number, with their own columns. */
const publishFormer = async (trx: Db, { pipeline }: Definition, versions: readonly number[]): Promise<void> => {
  for (const version of versions) {
    const [name, table] = [`${pipeline}_v${version}`, `data.${pipeline}_v${version}`]
    const columns = await columnNames(trx, table)
    await replaceView(trx, name, sql`select ${sql.join(columns.map((column) => sql.ref(column)))} from ${sql.table(table)}`)
    await commentOn(
      'view',
      sql.table(`bi.${name}`),
      `Rows of ${pipeline} as version ${version} had them. Read bi.${pipeline}.`,
    ).execute(trx)
    const { rows } = await sql<
      Texts<'column' | 'about'>
    >`select attname as column, col_description(attrelid, attnum) as about from pg_attribute
      where attrelid = to_regclass(${table}) and attname = any(${columns}::text[]) and col_description(attrelid, attnum) is not null`.execute(
      trx,
    )
    for (const { column, about } of rows) await commentOn('column', sql.ref(`bi.${name}.${column}`), about).execute(trx)
  }
}

const commentTables = async (trx: Db, definition: Definition): Promise<void> => {
  const name = `data.${definition.pipeline}_v${definition.version}`
  const columns = tableColumns(definition)
  await commentObject(
    trx,
    definition,
    'table',
    sql.table(name),
    `${definition.description} ${grainOf(definition)} Read bi.${definition.pipeline}.`,
    columns,
  )
  const ended = [...columns, '_valid_from', '_valid_to', '_ended_run_id']
  await commentObject(
    trx,
    definition,
    'table',
    sql.table(`${name}_history`),
    `Ended revisions of data.${definition.pipeline}_v${definition.version}. Read bi.${definition.pipeline}_history.`,
    ended,
  )
}

const commentObject = async (
  trx: Db,
  definition: Definition,
  kind: 'table' | 'view',
  object: RawBuilder<unknown>,
  text: string,
  columns: readonly string[],
): Promise<void> => {
  await commentOn(kind, object, text).execute(trx)
  for (const name of columns) {
    const column = definition.columns.find((candidate) => candidate.name === name)
    const about = column === undefined ? lineageComments[name] : columnComment(column)
    if (about !== undefined) await commentOn('column', sql`${object}.${sql.ref(name)}`, about).execute(trx)
  }
}
