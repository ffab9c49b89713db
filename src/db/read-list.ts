// Runs a person's query and reads its rows: in a read-only transaction, with a time limit, with a role that may not write.
import { EtlError, messageOf } from '../core/errors.ts'
import type { Secret } from '../core/redact.ts'
import { type Database, openDatabase } from './connect.ts'
import { sqlStateOf } from './database-error.ts'
import { withSession } from './session.ts'

export const readerRole = 'bi_reader'

export interface ListReading {
  readonly sql: string
  readonly timeoutMs: number
  /** Most rows; more are an error. */
  readonly most: number
  /** Address of a login of its own; null: the warehouse's, as bi_reader. */
  readonly readerUrl: Secret | null
}

/** Texts in the order of the rows; null: the row has NULL. Throws LIST_QUERY, saying what to do. */
export const readList = async (database: Pick<Database, 'pool'>, reading: ListReading): Promise<(string | null)[]> => {
  if (reading.readerUrl === null) return valuesOf(await readTable(database, reading, 1))
  const reader = await openDatabase({ databaseUrl: reading.readerUrl, home: '', maxConnections: 1, readsOnly: true })
  try {
    return valuesOf(await readTable(reader, reading, 1))
  } finally {
    await reader.close()
  }
}

const valuesOf = ({ rows }: Awaited<ReturnType<typeof readTable>>) => rows.map(([value]) => value ?? null)

/** A query of several columns: their names and its rows. Throws as `readList`. @param columns how many it must have; default any number */
export const readTable = ({ pool }: Pick<Database, 'pool'>, reading: ListReading, columns?: number) =>
  withSession(pool, async ({ client }) => {
    const { timeoutMs, most, readerUrl } = reading
    await client.query('begin transaction read only')
    try {
      await client.query(`set local statement_timeout = ${Math.ceil(timeoutMs)}`)
      if (readerUrl === null) await client.query(`set local role ${readerRole}`)
      // A subquery cannot write, and a statement with a parameter cannot contain a second statement.
      const text = `select * from (\n${reading.sql.trim().replace(/;+$/, '')}\n) as list limit $1`
      const { rows, fields } = await client.query<unknown[]>({ text, values: [most + 1], rowMode: 'array' })
      if (columns !== undefined && fields.length !== columns)
        throw new EtlError('LIST_QUERY', `the query returns ${fields.length} columns; a list is one column, one value a row.`)
      if (rows.length > most) throw new EtlError('LIST_QUERY', `the query returns more than ${most} rows.`)
      const names = fields.map(({ name }) => name)
      return { names, rows: rows.map((row) => row.map((cell) => (cell == null ? null : String(cell)))) }
    } catch (error) {
      throw asListError(error, reading)
    } finally {
      await client.query('rollback').catch(() => undefined)
    }
  })

const asListError = (error: unknown, { timeoutMs, readerUrl }: ListReading): EtlError => {
  if (error instanceof EtlError) return error
  const state = sqlStateOf(error)
  const said = messageOf(error)
  const next = ((): string => {
    if (state === '57014') return ` It took longer than ${timeoutMs / 1000} s; raise its timeout, or make it faster.`
    if (/role/.test(said) && (state === '42501' || state === '22023' || state === '42704'))
      return ` Grant the login of the warehouse the role ${readerRole} (\`grant ${readerRole} to millrace_loader\`), or set MILLRACE_READER_URL.`
    if (state === '42501')
      return ` It is read as ${readerUrl === null ? readerRole : 'the login of MILLRACE_READER_URL'}: grant that the right to select.`
    return ''
  })()
  return new EtlError('LIST_QUERY', `${said}.${next}`, { cause: error })
}
