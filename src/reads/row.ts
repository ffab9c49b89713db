// Rows of a read, as plain data: counts come as float8 so that JavaScript has numbers, times as ISO text.
import type { Kysely, RawBuilder } from 'kysely'
import type { Tables } from '../db/tables.ts'

export type Db = Kysely<Tables>

export const rowsOf = async <Row>(db: Db, query: RawBuilder<Row>): Promise<readonly Row[]> => (await query.execute(db)).rows
