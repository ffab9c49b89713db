// Reads mart files: a header of comments that says purpose, grain, question and columns, and one query.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Mart } from '../core/mart.ts'
import { shipped } from '../core/shipped.ts'
import { folderFiles } from './folder-files.ts'
import { assertNoProblems, firstNonUtf8, notUtf8, type Problem, sortProblems } from './problem.ts'

const shippedMarts = shipped('marts')

/** Shipped marts may be read by other views, so no pipeline can use their name in `bi`. */
export const isShippedMart = (name: string): boolean => existsSync(join(shippedMarts, `${name}.sql`))

/** Marts of all folders by name; a later folder's file replaces an earlier one's of the same name. Throws DEFINITION naming every mistake with file and line. */
export const loadMarts = async (folders: readonly string[]): Promise<readonly Mart[]> =>
  assertNoProblems(await readMarts(folders), 'marts').marts

/** Every mart that is right and every mistake of every file. */
export const readMarts = async (folders: readonly string[]) => {
  const marts = new Map<string, Mart>()
  const problems: Problem[] = []
  for (const { name, file, text } of await folderFiles([shippedMarts, ...folders], /\.sql$/)) {
    const read = readMart(file, name.slice(0, -'.sql'.length), text)
    problems.push(...read.problems)
    if (read.mart !== null) marts.set(read.mart.name, read.mart)
  }
  return { marts: ordered([...marts.values()], problems), problems: sortProblems(problems) }
}

const headerLine = /^--\s*(kind|purpose|grain|question|topic|reads|key|column)\b\s*([a-z_][a-z0-9_]*)?\s*:\s*(.+)$/

/** `mart` null: something is wrong. @param name the file's name without its ending */
export const readMart = (file: string, name: string, text: string) => {
  const problems: Problem[] = []
  const report = (line: number, message: string): void => void problems.push({ file, line, column: 1, message })
  if (!/^[a-z][a-z0-9_]{0,62}$/.test(name))
    report(1, `'${name}' cannot name a view; use lower-case letters, digits and _, at most 63.`)
  const foreign = firstNonUtf8(text)
  if (foreign >= 0) report(text.slice(0, foreign).split('\n').length, notUtf8)
  const said = new Map<string, string>()
  const columns = new Map<string, string>()
  const lines = text.split('\n')
  let at = 0
  for (; at < lines.length && (lines[at] ?? '').startsWith('--'); at += 1) {
    const [, word = '', column, value = ''] = headerLine.exec(lines[at] ?? '') ?? []
    if (word === '') report(at + 1, `'${lines[at]}' is not a header line; expected for example '-- purpose: what it is for'.`)
    else if (word === 'column' && column === undefined)
      report(at + 1, `'${lines[at]}' names no column; expected for example '-- column clicks: what it holds'.`)
    else if (word === 'column' && column !== undefined && columns.has(column))
      report(at + 1, `column '${column}' is described twice; keep one of the two.`)
    else if (word === 'column' && column !== undefined) columns.set(column, value.trim())
    else said.set(word, value.trim())
  }
  for (const word of ['purpose', 'grain', 'question'])
    if (!said.has(word)) report(1, `the header lacks '-- ${word}: …'; readers of bi see it in the catalog.`)
  const summaryOf = summaryPipeline(said.get('kind'), report)
  const key = list(said.get('key'))
  // Cut comments and semicolons at the end, since the query becomes part of a larger statement.
  const parts = partsOf(lines.slice(at).join('\n'))
  const end = parts.findLastIndex((part) => !/^(?:\s|;|--|\/\*)/.test(part))
  const sql = parts.slice(0, end + 1).join('').trim() // biome-ignore format: one look
  if (sql === '') report(at + 1, 'there is no query below the header.')
  if (summaryOf !== null && (key.length === 0 || !sql.includes('{{facts}}')))
    report(1, "a summary needs '-- key: …' and {{facts}} in its query.")
  if (problems.length > 0) return { mart: null, problems }
  const mart: Mart = {
    file,
    isShipped: dirname(file) === shippedMarts,
    name,
    summaryOf,
    purpose: said.get('purpose') ?? '',
    grain: said.get('grain') ?? '',
    question: said.get('question') ?? '',
    topic: said.get('topic') ?? 'Your own',
    reads: summaryOf === null ? list(said.get('reads')) : [summaryOf],
    key,
    columns,
    sql,
  }
  return { mart, problems }
}

/** Splits a query into strings, quoted names, comments and words; everything else into characters. */
const partsOf = (query: string): string[] =>
  query.match(
    /e'(?:[^'\\]|\\[\s\S])*'|'[^']*'|"[^"]*"|\$([a-z_]\w*)?\$[\s\S]*?\$\1\$|--.*|\/\*(?:\/\*[\s\S]*?\*\/|[\s\S])*?\*\/|[a-z_\u0080-\uffff][\w$\u0080-\uffff]*|[\s\S]/gi,
  ) ?? []

/** Names after `bi.` in a query, without those in comments and strings. */
const namedInBi = (query: string): string[] => {
  const code = partsOf(query).map((part) => (/^(?:--|\/\*|e?'|\$[\s\S])/i.test(part) ? ' ' : part))
  return [...code.join('').matchAll(/\bbi"?\s*\.\s*"?([a-z][a-z0-9_]*)/gi)].map(([, name = '']) => name.toLowerCase())
}

const list = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')

const summaryPipeline = (kind: string | undefined, report: (line: number, message: string) => void): string | null => {
  if (kind === undefined || kind === 'view') return null
  const [, pipeline] = /^summary of ([a-z][a-z0-9_]*)$/.exec(kind) ?? []
  if (pipeline === undefined) report(1, `kind is '${kind}', expected 'view' or 'summary of PIPELINE'.`)
  return pipeline ?? null
}

/** Sorts marts so that each comes after the marts that it reads. */
const ordered = (marts: readonly Mart[], problems: Problem[]): Mart[] => {
  const done: Mart[] = []
  const byName = new Map(marts.map((mart) => [mart.name, mart]))
  const visit = (mart: Mart, path: readonly string[]): void => {
    if (done.includes(mart)) return
    if (path.includes(mart.name)) {
      problems.push({ file: mart.file, line: 1, column: 1, message: `it reads itself: ${[...path, mart.name].join(' > ')}.` })
      return
    }
    for (const other of mart.reads.flatMap((read) => byName.get(read) ?? [])) visit(other, [...path, mart.name])
    // Also marts that the query reads but the header does not name: remaking one later would drop this mart. PostgreSQL reports a circle of these.
    for (const read of namedInBi(mart.sql))
      for (const other of [byName.get(read)])
        if (other !== undefined && ![...path, mart.name].includes(read)) visit(other, [...path, mart.name])
    done.push(mart)
  }
  for (const mart of marts) visit(mart, [])
  return done
}
