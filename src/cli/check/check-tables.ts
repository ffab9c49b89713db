// Whether each definition fits its table, also before the migration that makes it is applied, and whether each mart's query runs and gives what its header explains.
import { sql } from 'kysely'
import { messageOf } from '../../core/errors.ts'
import type { Mart } from '../../core/mart.ts'
import type { Definition } from '../../core/types.ts'
import { columnNames, missingRelations } from '../../db/catalog.ts'
import type { Database } from '../../db/connect.ts'
import { isDatabaseError } from '../../db/database-error.ts'
import { afterPending } from '../../db/migrate-trial.ts'
import { loadMigration, migrationFiles, statementsOf } from '../../db/migration-files.ts'
import type { Db } from '../../db/tables.ts'
import { compareTables, type Difference } from '../../load/drift.ts'

/**
 * The tables as they would be with the pending migrations, which are applied and taken back; a string says why that was not tried. One that
 * touches what is there is not: until it is taken back, loads would wait for its locks, and for the index it builds.
 * @param isEmpty nothing was ever migrated: then nobody can wait for what is tried
 */
export const compareAfter = async (
  database: Database,
  folders: readonly string[],
  pending: readonly string[],
  definitions: readonly Definition[],
  isEmpty: boolean,
): Promise<readonly Difference[] | string> => {
  const files = await migrationFiles(folders)
  const before: string[] = []
  for (const name of isEmpty ? [] : pending) {
    before.push(...(await statementsOf((await loadMigration(name, files.get(name) ?? '')).up)))
    if (touchesWhatIsThere(before) !== null)
      return `migration ${name} changes what is there; apply it first (\`millrace migrate\`)`
  }
  return afterPending(database, { folders }, (db) => compareTables(db, definitions)).catch((error: unknown) => messageOf(error))
}

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
    return [
      {
        result: 'not asked',
        message: `${mart.file}: its query: there is no definition of ${mart.summaryOf} that is right and published.`,
      },
    ]
  const missing = await notThere(kysely, mart, definitions)
  if (missing !== null)
    return [
      {
        result: 'not asked',
        message: `${mart.file}: its query: ${missing} is not published yet (\`millrace migrate\` does it).`,
      },
    ]
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
  const place = (pattern: RegExp): number => Math.max(1, text.split('\n').findIndex((line) => pattern.test(line)) + 1)
  const explained = new Set([...definitions.flatMap(({ columns }) => columns.map(({ name }) => name)), ...mart.columns.keys()])
  return [
    ...[...mart.columns.keys()]
      .filter((name) => !names.includes(name))
      .map(
        (name): MartFinding => ({
          result: 'error',
          message: `${mart.file}:${place(new RegExp(`^--\\s*column\\s+${name}\\b`))}:1: the header explains '${name}', which the query does not give. It gives ${names.join(', ')}.`,
        }),
      ),
    ...mart.key
      .filter((name) => !names.includes(name))
      .map(
        (name): MartFinding => ({
          result: 'error',
          message: `${mart.file}:${place(/^--\s*key\b/)}:1: '${name}' of the key is no column of the query. It gives ${names.join(', ')}.`,
        }),
      ),
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

const name = String.raw`(?:"?\w+"?\.)?"?\w+"?`

/** Statements that make one thing. `if not exists` is none: the thing may be there. */
const makes = /^\s*create\s+(?:unlogged\s+)?(?:table|schema|index|unique\s+index|sequence|function|view)\b/i
const harmless = /^\s*create\s+schema\b|^\s*comment\s+on\s+(?:schema|function|sequence)\b/i
const newTable = new RegExp(String.raw`^\s*create\s+(?:unlogged\s+)?table\s+(?!if\s+not\s+exists)(${name})`, 'i')

/** Where a statement names a table that it locks or writes: an index, a comment or rows for it, a foreign key to it, a part of it. */
const locks = [
  new RegExp(String.raw`^\s*create\s+(?:unique\s+)?index\b[^(]*?\bon\s+(?:only\s+)?(${name})`, 'i'),
  new RegExp(String.raw`^\s*comment\s+on\s+(?:table|view)\s+(${name})`, 'i'),
  /^\s*comment\s+on\s+column\s+((?:"?\w+"?\.)?"?\w+"?)\."?\w+"?\s/i,
  new RegExp(String.raw`^\s*insert\s+into\s+(${name})`, 'i'),
  new RegExp(String.raw`\breferences\s+(${name})`, 'gi'),
  new RegExp(String.raw`\bpartition\s+of\s+(${name})`, 'gi'),
  new RegExp(String.raw`\binherits\s*\(\s*(${name})`, 'gi'),
]

const bare = (written: string): string => written.replaceAll('"', '').toLowerCase()

const lockedBy = (statement: string): string[] =>
  locks.flatMap((pattern) => [...statement.matchAll(new RegExp(pattern, 'gi'))].map(([, written = '']) => bare(written)))

/**
 * The first statement that touches what is there, or could: an unknown kind of statement counts as one that does. null: there is none.
 * @param statements of all pending migrations, in order: what an earlier one makes, a later one may index, fill and comment
 */
export const touchesWhatIsThere = (statements: readonly string[]): string | null => {
  const made = new Set<string>()
  for (const statement of statements) {
    const locked = lockedBy(statement)
    const isKnown = makes.test(statement) || harmless.test(statement) || /^\s*(?:insert|comment)\b/i.test(statement)
    if (!isKnown || locked.some((table) => !made.has(table))) return statement
    // A comment or rows for what was not recognized above.
    if (locked.length === 0 && /^\s*(?:insert|comment)\b/i.test(statement) && !harmless.test(statement)) return statement
    const table = newTable.exec(statement)?.[1]
    if (table !== undefined) made.add(bare(table))
  }
  return null
}
