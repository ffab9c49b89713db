// Whether each definition fits its table, also before the migration that makes it is applied, and whether each mart's query runs and gives what its header explains.
import { sql } from 'kysely'
import { messageOf } from '../../core/errors.ts'
import type { Mart } from '../../core/mart.ts'
import type { Definition } from '../../core/types.ts'
import { columnNames, missingRelations } from '../../db/catalog.ts'
import type { Database } from '../../db/connect.ts'
import { isDatabaseError } from '../../db/database-error.ts'
import { afterPending } from '../../db/migrate-trial.ts'
import type { Db } from '../../db/tables.ts'
import { compareTables, type Difference } from '../../load/drift.ts'

/** The tables as they would be with the pending migrations, which are applied and taken back; a string says why that could not be tried. */
export const compareAfter = (
  database: Database,
  folders: readonly string[],
  definitions: readonly Definition[],
): Promise<readonly Difference[] | string> =>
  afterPending(database, { folders }, (db) => compareTables(db, definitions)).catch(
    (error: unknown) => `${messageOf(error)}. Apply the pending migrations first (\`millrace migrate\`)`,
  )

/** What was found of one mart; `message` names file, line and column where it is about a line. */
interface MartFinding {
  readonly result: 'error' | 'warning' | 'proved' | 'not asked'
  readonly message: string
  /** The column that no definition and no header explains, where the finding is about that. */
  readonly unexplained?: string
}

/** Runs the mart's query for no row. */
export const checkMart = async (
  { kysely }: Database,
  mart: Mart,
  definitions: readonly Definition[],
  text: string,
): Promise<MartFinding[]> => {
  if (mart.summaryOf !== null && sourceOf(mart, definitions) === undefined)
    return notAsked(mart, `there is no definition of ${mart.summaryOf} that is right and published.`)
  const missing = await notThere(kysely, mart, definitions)
  if (missing !== null) return notAsked(mart, `${missing} is not published yet (\`millrace migrate\` does it).`)
  const first = lineOf(text, mart.sql.split('\n', 1)[0] ?? '')
  try {
    const names = await columnsOf(kysely, factsOf(mart, definitions))
    const findings = compareColumns(mart, names, definitions, text)
    return findings.length > 0
      ? findings
      : [{ result: 'proved', message: `${mart.file}: the query runs and gives the columns its header explains.` }]
  } catch (error) {
    if (!isDatabaseError(error)) throw error
    const at =
      typeof error === 'object' && error !== null && 'position' in error && typeof error.position === 'string'
        ? Number(error.position) - opening.length - 1
        : 0
    const line = first + factsOf(mart, definitions).slice(0, Math.max(0, at)).split('\n').length - 1
    return [
      { result: 'error', message: `${mart.file}:${line}:1: PostgreSQL refuses the query: ${messageOf(error)}. Correct it.` },
    ]
  }
}

const notAsked = ({ file }: Mart, why: string): MartFinding[] => [{ result: 'not asked', message: `${file}: its query: ${why}` }]

const opening = 'create temporary view checked_mart as select * from ('

/** The definition whose table a summary is made from. */
const sourceOf = (mart: Mart, definitions: readonly Definition[]): Definition | undefined =>
  definitions.find(({ pipeline, publish }) => publish && pipeline === mart.summaryOf)

const factsOf = (mart: Mart, definitions: readonly Definition[]): string => {
  const source = sourceOf(mart, definitions)
  return source === undefined ? mart.sql : mart.sql.replaceAll('{{facts}}', `data.${source.pipeline}_v${source.version} as facts`)
}

const columnsOf = (db: Db, query: string): Promise<string[]> =>
  db.transaction().execute(async (trx) => {
    await sql.raw(`${opening}${query}\n) q limit 0`).execute(trx)
    const found = await columnNames(trx, 'pg_temp.checked_mart')
    await sql`drop view pg_temp.checked_mart`.execute(trx)
    return found
  })

const notThere = async (db: Db, mart: Mart, definitions: readonly Definition[]): Promise<string | null> => {
  const source = sourceOf(mart, definitions)
  const wanted =
    source === undefined
      ? mart.reads.map((name) => (name.includes('.') ? name : `bi.${name}`))
      : [`data.${source.pipeline}_v${source.version}`]
  const [first] = await missingRelations(db, wanted)
  return first ?? null
}

const lineOf = (text: string, line: string): number =>
  Math.max(1, text.split('\n').findIndex((one) => one.trim() === line.trim()) + 1)

const compareColumns = (
  mart: Mart,
  names: readonly string[],
  definitions: readonly Definition[],
  text: string,
): MartFinding[] => {
  const place = (pattern: RegExp): string =>
    `${mart.file}:${Math.max(1, text.split('\n').findIndex((line) => pattern.test(line)) + 1)}:1`
  const isLacking = (name: string): boolean => !names.includes(name)
  const wrong = (pattern: RegExp, words: string): MartFinding => ({
    result: 'error',
    message: `${place(pattern)}: ${words} It gives ${names.join(', ')}.`,
  })
  const explained = new Set([...definitions.flatMap(({ columns }) => columns.map(({ name }) => name)), ...mart.columns.keys()])
  return [
    ...[...mart.columns.keys()]
      .filter(isLacking)
      .map((name) =>
        wrong(new RegExp(`^--\\s*column\\s+${name}\\b`), `the header explains '${name}', which the query does not give.`),
      ),
    ...mart.key.filter(isLacking).map((name) => wrong(/^--\s*key\b/, `'${name}' of the key is no column of the query.`)),
    ...names
      .filter((name) => !explained.has(name))
      .map(
        (name): MartFinding => ({
          result: 'warning',
          unexplained: name,
          message: `${mart.file}:1:1: the query gives '${name}', which nothing explains; add '-- column ${name}: …' to the header.`,
        }),
      ),
  ]
}
