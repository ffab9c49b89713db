// A unit's parsed rows on the database's side, in a temporary table of the session, before anything is decided about them.
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import { copyInto } from '../db/connect.ts'
import type { Session } from '../db/session.ts'
import { stagedColumns, tableName } from './table-columns.ts'

export interface StagedChunk {
  /** Rows in PostgreSQL's COPY text format. */
  readonly copy: Buffer
  readonly rows: number
}

export interface Staging {
  /** Quoted name of the temporary table. */
  readonly table: string
  rows(): number
  /** Waits for the database when it is slower. */
  write(chunk: StagedChunk): Promise<void>
  /** Everything written is in the table after this. */
  flush(): Promise<void>
  /** Leaves it empty for the session's next unit. */
  close(): Promise<void>
}

/** A COPY is ended after this much, so that a slow download holds no transaction open for long. */
const copyBytes = 16 * 1024 * 1024
/** Dead rows left in the table before it is truncated rather than deleted from; truncating costs catalog writes. */
const truncateAfterRows = 5_000

const prepared = new WeakMap<object, Map<string, { rowsSinceTruncate: number }>>()

/** The session's staging table of this definition, empty. It is made once a session and used for one unit after the other. */
export const openStaging = async (session: Session, definition: Definition): Promise<Staging> => {
  const name = `staging_${tableName(definition)}`.slice(0, 63)
  const table = `pg_temp."${name}"`
  const tables = prepared.get(session.kysely) ?? new Map<string, { rowsSinceTruncate: number }>()
  prepared.set(session.kysely, tables)
  const columns = stagedColumns(definition)
  const state = tables.get(name) ?? { rowsSinceTruncate: 0 }
  if (!tables.has(name)) {
    const list = sql.join(columns.map((column) => sql`${sql.ref(column.name)} ${sql.raw(column.type)}`))
    await sql`create temporary table ${sql.raw(`"${name}"`)} (${list})`.execute(session.kysely)
    tables.set(name, state)
  }
  return staging(session, table, state, columns.map((column) => `"${column.name}"`).join(', '))
}

const staging = (session: Session, table: string, state: { rowsSinceTruncate: number }, columns: string): Staging => {
  const statement = `copy ${table} (${columns}) from stdin`
  let copy: Copy | null = null
  let rows = 0
  const flush = async (): Promise<void> => {
    const open = copy
    copy = null
    await open?.end()
  }
  const empty = async (): Promise<void> => {
    await flush()
    if (rows === 0) return
    rows = 0
    if (state.rowsSinceTruncate > truncateAfterRows) {
      await session.client.query(`truncate ${table}`)
      state.rowsSinceTruncate = 0
    } else {
      await session.client.query(`delete from ${table}`)
    }
  }
  return {
    table,
    rows: () => rows,
    write: async (chunk) => {
      copy ??= startCopy(copyInto(session.client, statement))
      rows += chunk.rows
      state.rowsSinceTruncate += chunk.rows
      await copy.write(chunk.copy)
      if (copy.bytes() >= copyBytes) await flush()
    },
    flush,
    close: async () => {
      // A COPY cut short by an error is rolled back by the server; the rows counted for it are not there.
      if (copy !== null) {
        await copy.abort()
        copy = null
        rows = Math.max(rows, 1)
      }
      await empty()
    },
  }
}

interface Copy {
  bytes(): number
  write(data: Buffer): Promise<void>
  end(): Promise<void>
  abort(): Promise<void>
}

const startCopy = (stream: Writable): Copy => {
  let bytes = 0
  const finished = new Promise<void>((resolve, reject) => {
    stream.once('finish', resolve)
    stream.once('error', reject)
  })
  finished.catch(() => undefined)
  return {
    bytes: () => bytes,
    write: async (data) => {
      bytes += data.length
      if (!stream.write(data)) await Promise.race([once(stream, 'drain'), finished])
    },
    end: async () => {
      stream.end()
      await finished
    },
    abort: async () => {
      stream.destroy(new Error('the answer was not whole'))
      await finished.catch(() => undefined)
    },
  }
}
