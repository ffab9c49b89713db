// Reads files of attributes for the values that pipelines run for: groups, names, terms, page types by pattern. Problems have file and line.
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { columnTypes } from '../core/column-types.ts'
import { withoutMark } from '../core/json.ts'
import { mostListBytes, readByHand } from '../core/regular-file.ts'
import type { AttributeRow, AttributeSet } from '../core/attribute-types.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { checkValue } from './for-each.ts'
import { firstNonUtf8, type Problem, sortProblems, suggest } from './problem.ts'

export type Attributes = Awaited<ReturnType<typeof readAttributes>>

/** Checks a value of an attribute file and brings it to its one spelling. */
type Check = (written: string) => { readonly value: string } | { readonly message: string }
/** Checks by subject, the name of a file's first column. */
type Subjects = ReadonlyMap<string, Check>

/** A subject without a dimension: classifies pages by a pattern of their address. The first matching pattern counts. */
const patternSubject = 'pattern'
const count = new Intl.NumberFormat('en')
/** Limited, because each page is compared with one pattern after another. */
const mostPatterns = 1_000
/** The attribute that holds a pattern's position in the file. */
const orderName = 'place'

/** Subjects: dimensions of the definitions, keys of their dimension tables, and patterns. */
export const subjectsOf = (definitions: readonly Definition[], sources: ReadonlyMap<string, SourceSpec>): Subjects => {
  const subjects = new Map<string, Check>([[patternSubject, (written) => plain(written)]])
  for (const { source: name, dimensions, dimensionTables, columns } of definitions) {
    const source = sources.get(name)
    for (const subject of [...dimensions.map((one) => one.name), ...dimensionTables.map(({ column }) => column)]) {
      const spec = source?.dimensions[subject]
      const check: Check = (written) =>
        source === undefined || spec === undefined ? plain(written) : checkValue(written, spec, source)
      const isWhole = columns.some((one) => one.name === subject && columnTypes[one.type].rounded !== null)
      subjects.set(subject, isWhole ? wholeNumber(check) : check)
    }
  }
  return subjects
}

/** Removes leading zeros that a spreadsheet may put before a number, so that it has one spelling. */
const wholeNumber =
  (check: Check): Check =>
  (written) =>
    check(/^\d+$/.test(written.trim()) ? written.trim().replace(/^0+(?=\d)/, '') : written)

const plain = (written: string): ReturnType<Check> =>
  written.trim() === '' ? { message: 'an empty value; write one or remove the line.' } : { value: written.trim() }

/** Every `*.csv` and `*.sql` of the folder, hidden ones aside; none where there is no such folder, or where there is a problem. */
export const readAttributes = async (folder: string, subjects: Subjects) => {
  const all = existsSync(folder) ? (await readdir(folder)).filter((name) => !name.startsWith('.')).sort() : []
  const problems: Problem[] = all.filter(isMisnamed).map((name) => ({
    ...top(join(folder, name)),
    message: `attributes are read from *.csv and *.sql; save it as one of these, or move it out of ${folder}.`,
  }))
  const sets: AttributeSet[] = []
  for (const name of all.filter((one) => /\.(csv|sql)$/.test(one))) {
    const file = join(folder, name)
    const text = withoutMark(readByHand(file, mostListBytes))
    if (firstNonUtf8(text) >= 0) {
      problems.push({ ...top(file), message: 'not UTF-8; save it as "CSV UTF-8", or some letters would be lost.' })
      continue
    }
    if (name.endsWith('.sql')) sets.push({ file, sql: text, rowsOf: (table) => setOf(file, table, subjects) })
    else sets.push(...(await csvSets(file, text, subjects, problems)))
  }
  const bySubject = Map.groupBy(sets, (set) => ('subject' in set ? set.subject : set.file))
  for (const [subject, [first, second]] of bySubject)
    if (first !== undefined && second !== undefined)
      problems.push({
        ...top(second.file),
        message: `${first.file} has attributes of '${subject}' already; write them into one file.`,
      })
  return { sets: problems.length > 0 ? [] : sets, problems: sortProblems(problems) }
}

/** Whether the file looks like a table that a person expects to be read. */
const isMisnamed = (name: string): boolean =>
  /\.(csv|sql|tsv|xlsx?|ods)$/i.test(name) && !/\.(csv|sql)$/.test(name) && !name.startsWith('~')

const top = (file: string) => ({ file, line: 1, column: 1 })

/** One set; none where there are problems. */
const csvSets = async (file: string, text: string, subjects: Subjects, problems: Problem[]): Promise<readonly AttributeSet[]> => {
  const { parse } = await import('csv-parse/sync')
  try {
    const table: { line: number; cells: string[] }[] = []
    parse(text, {
      bom: true,
      relax_column_count: true,
      skip_empty_lines: true,
      // Comments only at the beginning of a line: a group may be called C#.
      comment: '#',
      comment_no_infix: true,
      trim: true,
      // `lines` is the record's last line. Keep nothing else: csv-parse's full info of 100,000 records would take twice the memory.
      on_record: (cells: string[], { lines }) => {
        table.push({ line: lines, cells })
        return null
      },
    })
    const found = setOf(file, table, subjects)
    problems.push(...found.problems)
    return found.set === null ? [] : [found.set]
  } catch (error) {
    const line = error instanceof Error && 'lines' in error ? Number(error.lines) : 1
    problems.push({
      file,
      line,
      column: 1,
      message: `not valid CSV: ${error instanceof Error ? error.message : error}. Correct the line.`,
    })
    return []
  }
}

/** Lines of a table, the header first. Of a query the line is the row's number. */
type AttributeTable = Parameters<Extract<AttributeSet, { sql: string }>['rowsOf']>[0]

const setOf = (file: string, [header, ...lines]: AttributeTable, subjects: Subjects) => {
  const problems: Problem[] = []
  const report = (line: number, message: string): void => void problems.push({ file, line, column: 1, message })
  const [subject = '', ...names] = header?.cells ?? []
  const check = subjects.get(subject)
  if (check === undefined) {
    const known = [...subjects.keys()]
    const separator = names.length === 0 ? /[;\t]/.exec(subject)?.[0] : undefined
    const next =
      separator === undefined
        ? suggest(subject, known)
        : ` Its cells are separated by ${separator === ';' ? 'semicolons' : 'tabs'}: save it with commas.`
    report(header?.line ?? 1, `the first column is '${subject}'; expected the name of what the attributes describe.${next}`)
    return { set: null, problems }
  }
  if (subject === patternSubject && lines.length > mostPatterns)
    report(
      lines[mostPatterns]?.line ?? 1,
      `${count.format(lines.length)} patterns; at most ${count.format(mostPatterns)} are allowed, because each page is compared with all of them. Write fewer, wider ones.`,
    )
  if (lines.length === 0) report(header?.line ?? 1, 'there is no line below the header. Delete the file to end its attributes.')
  for (const [at, name] of names.entries())
    if (!/^[a-z][a-z0-9_]*$/.test(name) || names.indexOf(name) < at || (subject === patternSubject && name === orderName))
      report(
        header?.line ?? 1,
        `'${name}' cannot name an attribute; use lower-case letters, digits and _, each name once${subject === patternSubject ? `, and not ${orderName}` : ''}.`,
      )
  const seen = new Map<string, number>()
  const rows = lines.flatMap(({ line, cells }, place): AttributeRow[] => {
    if (cells.length !== names.length + 1)
      report(
        line,
        `${cells.length} cells, the header has ${names.length + 1}; add or remove commas, or put quotes around a cell with one.`,
      )
    const checked = check(cells[0] ?? '')
    if ('message' in checked) report(line, `${subject}: ${checked.message}`)
    const value = 'value' in checked ? checked.value : ''
    const before = seen.get(value)
    if (value !== '' && before !== undefined) report(line, `'${value}' is in line ${before} already; keep one of the two.`)
    seen.set(value, line)
    const attributes = names.flatMap((name, at) => attributeOf(name, cells[at + 1] ?? '', (message) => report(line, message)))
    return [
      {
        value,
        attributes: Object.fromEntries(subject === patternSubject ? [...attributes, [orderName, place + 1]] : attributes),
      },
    ]
  })
  return problems.length > 0 ? { set: null, problems } : { set: { file, subject, rows }, problems }
}

const owners = ['own', 'competitor']

/** An empty cell is no attribute. Names that the shipped marts read (`ownership`, `…_terms`) have special values. */
const attributeOf = (name: string, cell: string, wrong: (message: string) => void): [string, string | string[]][] => {
  const text = cell.trim()
  if (text === '') return []
  if (name === 'ownership' && !owners.includes(text)) wrong(`ownership is '${text}'; expected one of ${owners.join(', ')}.`)
  if (!name.endsWith('_terms')) return [[name, text]]
  // A list of terms, each of one or more words; marts compare them in lower case.
  return [[name, text.split(/[|;]/).flatMap((term) => term.trim().toLowerCase() || [])]]
}
