// An answer's parsed rows on the database's side, in an unlogged table the session has to itself, before anything is decided about them.
import { once } from 'node:events'
import type { Writable } from 'node:stream'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { copyInto } from '../db/connect.ts'
import type { Session } from '../db/session.ts'
import { emptyStagingTable, type StagingTable, stagingTableOf } from './staging-table.ts'
import { stagedColumns } from './table-columns.ts'

/** Some rows on their way to staging. */
export interface StagedChunk {
  /** Rows in PostgreSQL's COPY text format. */
  readonly copy: Buffer
  readonly rows: number
  /** Called once the bytes have left this process. */
  readonly release?: () => void
}

/** Where rows wait until their answer is whole and judged. */
export interface Staging {
  /** Quoted name of the table; there is none before `flush`. */
  readonly table: string
  /** Whether rows bear their place as `_n`; those of a table that is to become a month do not. */
  readonly isNumbered: boolean
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

/**
 * A staging table of this definition that belongs to the session until it ends, empty. It is used for one answer after the other. Unlogged
 * rather than temporary: its rows are no more durable, but the server may read them with several workers at once. It is made when rows
 * are first sent to it.
 */
export const openStaging = (session: Session, definition: Definition): Staging => {
  const columns = stagedColumns(definition)
  const list = columns.map((column) => `"${column.name}"`).join(', ')
  const empty = (table: StagingTable): Promise<void> => emptyStagingTable(session, table)
  return createStaging(session, { hold: () => stagingTableOf(session, definition), empty, columns: list, isNumbered: true })
}

/** The table behind a staging. */
export interface StagedInto {
  /** Called when rows are first sent. */
  readonly hold: () => Promise<StagingTable>
  /** Called at the end where rows were sent. */
  readonly empty: (table: StagingTable) => Promise<void>
  /** Quoted names in the order of the COPY, joined by commas. */
  readonly columns: string
  readonly isNumbered: boolean
}

/** See `openStaging`. */
export const createStaging = (session: Session, { hold, empty: emptied, columns, isNumbered }: StagedInto): Staging => {
  let state: StagingTable | null = null
  let copy: Copy | null = null
  let rows = 0
  let sentRows = 0
  let waiting: StagedChunk[] | null = []
  const send = async (chunk: StagedChunk): Promise<void> => {
    state ??= await hold()
    copy ??= startCopy(copyInto(session.client, `copy ${state.name} (${columns}) from stdin`))
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
    await emptied(state)
    state = null
  }
  return {
    get table() {
      if (state === null) throw new EtlError('INTERNAL', 'A staging table was asked for before its rows were sent to it.')
      return state.name
    },
    isNumbered,
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
      const index = `${state.name.slice(0, -1)}_by"`
      await session.client.query(`create index ${index.replace('staging.', '')} on ${state.name} ("${column}")`)
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
