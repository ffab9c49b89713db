// A mart: a view or a summary over published views, written as one SQL file.
import { createHash } from 'node:crypto'

export interface Mart {
  readonly file: string
  /** The mart comes with Millrace: it is skipped where a definition lacks a column that it reads. */
  readonly isShipped: boolean
  /** Its name in `bi`: the file's name. */
  readonly name: string
  /** Pipeline whose facts it sums up as a table, refreshed with each load; null: a view. */
  readonly summaryOf: string | null
  readonly purpose: string
  readonly grain: string
  readonly question: string
  /** The topic of its question, by which the dictionary groups questions. */
  readonly topic: string
  /** Names in `bi` (or `etl.name`) it reads; it is published when all of them are there. */
  readonly reads: readonly string[]
  /** Primary key of a summary; empty for a view. */
  readonly key: readonly string[]
  /** Column descriptions by name; a key column without one takes it from the definitions. */
  readonly columns: ReadonlyMap<string, string>
  /** The query; `{{facts}}` stands for the pipeline's rows in a summary. */
  readonly sql: string
}

/** A digest of what a summary's table is made from, at the end of its comment: with another query, key, pipeline or version the table is rebuilt. */
export const summarySignature = ({ sql, key, summaryOf }: Pick<Mart, 'sql' | 'key' | 'summaryOf'>, version: number): string =>
  createHash('sha256').update(`${sql}/${key.join()}/${summaryOf}/${version}`).digest('hex').slice(0, 16)
