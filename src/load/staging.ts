// An answer's parsed rows on the database's side, in an unlogged table the session has to itself, before anything is decided about them.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Column, Definition } from '../core/types.ts'
import { copyInto } from '../db/connect.ts'
import type { Session } from '../db/session.ts'
import { stagedColumns, tableName } from './table-columns.ts'

export interface StagedChunk {
  /** Rows in PostgreSQL's COPY text format. */
  readonly copy: Buffer
  readonly rows: number
  /** Called once the bytes have left this process. */
  readonly release?: () => void
}

export interface Staging {
  /** Quoted name of the table; there is none before `flush`. */
  readonly table: string
  rows(): number
  /** All rows written, where they are so few that none has been sent yet; null where the table has some. */
  held(): Buffer | null
  /** Waits for the database when it is slower. */
  write(chunk: StagedChunk): Promise<void>
  /** Everything written is in the table after this; the n-th row has `_n` = n. */
  flush(): Promise<void>
  /** Rows are looked up by this column from here on, until it is closed. Call after `flush`. */
  indexBy(column: string): Promise<void>
  /** Leaves it empty for the session's next answer. */
  close(): Promise<void>
}

/** A COPY is ended after this long, so that a slow download holds no transaction open; each end is a pause for both sides. */
const copyMs = 2_000
/** So much is kept here until it is known whether the rows need the table at all. */
const heldBytes = 64 * 1024
/** Dead rows left in the table before it is truncated rather than deleted from; truncating costs catalog writes. */
const truncateAfterRows = 5_000

/** More tables of one definition than processes and slots can use at once. */
const maxTables = 1_000

/** Numbers of rows fetched from their sequence at a time; a session has its table to itself, so none is lost. */
const numbersAtOnce = 10_000

interface Held {
  readonly table: string
  /** Of the column `_n`. */
  readonly sequence: string
  /** Quoted name; null where there is none. */
  index: string | null
  rowsSinceTruncate: number
}

const heldBySession = new WeakMap<object, Map<string, Held>>()

/**
 * A staging table of this definition that belongs to the session until it ends, empty. It is used for one answer after the other. Unlogged
 * rather than temporary: its rows are no more durable, but the server may read them with several workers at once. It is made when rows
 * are first sent to it.
 */
export const openStaging = (session: Session, definition: Definition): Staging => {
  const columns = stagedColumns(definition)
  const list = columns.map((column) => `"${column.name}"`).join(', ')
  return staging(session, () => tableOf(session, definition, columns), list)
}

const tableOf = async (session: Session, definition: Definition, columns: readonly Column[]): Promise<Held> => {
  const family = familyName(definition)
  const tables = heldBySession.get(session.kysely) ?? new Map<string, Held>()
  heldBySession.set(session.kysely, tables)
  const held = tables.get(family) ?? (await holdTable(session, family, columns))
  tables.set(family, held)
  return held
}

/** Tables with the same columns share a name but for the number at its end. */
const familyName = (definition: Definition): string => {
  const columns = stagedColumns(definition).map(({ name, type }) => `${name} ${type}`)
  const hash = createHash('sha256').update(columns.join()).digest('hex').slice(0, 6)
  return `${tableName(definition).slice(0, 40)}_${hash}`
}

/** The first table nobody holds. The lock goes with the session, so whoever comes next finds what a killed one left, and empties it. */
const holdTable = async (session: Session, family: string, columns: readonly Column[]): Promise<Held> => {
  for (let number = 1; number <= maxTables; number += 1) {
    const name = `${family}_${number}`
    const { rows } = await sql<{ held: boolean }>`
      select pg_try_advisory_lock(hashtextextended(${`staging/${name}`}, 0)) as held`.execute(session.kysely)
    if (rows[0]?.held !== true) continue
    const table = sql.table(`staging.${name}`)
    const list = sql.join(columns.map((column) => sql`${sql.ref(column.name)} ${sql.raw(column.type)}`))
    await sql`drop table if exists ${table}`.execute(session.kysely)
    await sql`create unlogged table ${table} (_n bigint generated always as identity (cache ${sql.lit(numbersAtOnce)}), ${list})
      with (autovacuum_enabled = off)`.execute(session.kysely)
    return { table: `staging."${name}"`, sequence: `staging."${name}__n_seq"`, index: null, rowsSinceTruncate: 0 }
  }
  throw new EtlError('INTERNAL', `No staging table of ${family} is free; ${maxTables} are in use.`)
}

const staging = (session: Session, hold: () => Promise<Held>, columns: string): Staging => {
  let state: Held | null = null
  let copy: Copy | null = null
  let rows = 0
  let sentRows = 0
  let waiting: StagedChunk[] | null = []
  const send = async (chunk: StagedChunk): Promise<void> => {
    state ??= await hold()
    copy ??= startCopy(copyInto(session.client, `copy ${state.table} (${columns}) from stdin`))
    sentRows += chunk.rows
    state.rowsSinceTruncate += chunk.rows
    if (await copy.write(chunk.copy)) chunk.release?.()
    if (copy.openMs() >= copyMs) await endCopy()
  }
  const sendWaiting = async (): Promise<void> => {
    const chunks = waiting ?? []
    waiting = null
    for (const chunk of chunks) await send(chunk)
  }
  const endCopy = async (): Promise<void> => {
    const open = copy
    copy = null
    await open?.end()
  }
  const empty = async (): Promise<void> => {
    await endCopy()
    if (state === null || sentRows === 0) return
    sentRows = 0
    const isMuch = state.rowsSinceTruncate > truncateAfterRows
    const emptied = isMuch ? `truncate ${state.table}` : `delete from ${state.table}`
    const dropped = state.index === null ? '' : `drop index ${state.index};`
    await session.client.query(`${dropped} ${emptied}; select setval('${state.sequence}', 1, false)`)
    state.index = null
    if (isMuch) state.rowsSinceTruncate = 0
  }
  return {
    get table() {
      if (state === null) throw new EtlError('INTERNAL', 'A staging table was asked for before its rows were sent to it.')
      return state.table
    },
    rows: () => rows,
    held: () => (waiting === null ? null : Buffer.concat(waiting.map((chunk) => chunk.copy))),
    write: async (chunk) => {
      rows += chunk.rows
      if (waiting === null) return send(chunk)
      waiting.push(chunk)
      if (waiting.reduce((sum, one) => sum + one.copy.length, 0) > heldBytes) await sendWaiting()
    },
    flush: async () => {
      await sendWaiting()
      state ??= await hold()
      await endCopy()
    },
    indexBy: async (column) => {
      if (state === null || state.index !== null) return
      const index = `${state.table.slice(0, -1)}_by"`
      await session.client.query(`create index ${index.replace('staging.', '')} on ${state.table} ("${column}")`)
      state.index = index
    },
    close: async () => {
      // A COPY cut short by an error is rolled back by the server; the rows counted for it are not there.
      if (copy !== null) {
        await copy.abort()
        copy = null
        sentRows = Math.max(sentRows, 1)
      }
      rows = 0
      await empty()
    },
  }
}

interface Copy {
  openMs(): number
  /** Whether the bytes are certain to have left; else they may wait in the driver. */
  write(data: Buffer): Promise<boolean>
  end(): Promise<void>
  abort(): Promise<void>
}

const startCopy = (stream: Writable): Copy => {
  const started = performance.now()
  const finished = new Promise<void>((resolve, reject) => {
    stream.once('finish', resolve)
    stream.once('error', reject)
  })
  finished.catch(() => undefined)
  // The driver lets go of the connection when it dies; writing on would fail with a word about the driver's inside instead of the cause.
  let broken: unknown = null
  stream.once('error', (error) => {
    broken = error
  })
  return {
    openMs: () => performance.now() - started,
    write: async (data) => {
      if (broken !== null) throw broken
      if (!stream.write(data)) await Promise.race([once(stream, 'drain'), finished])
      // What is larger than streams hold back counts as waiting until the system has taken it.
      return data.length > stream.writableHighWaterMark
    },
    end: async () => {
      if (broken !== null) throw broken
      stream.end()
      await finished
    },
    abort: async () => {
      stream.destroy(new Error('the answer was not whole'))
      await finished.catch(() => undefined)
    },
  }
}
