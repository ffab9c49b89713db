// Reads mart files: a header of comments that says purpose, grain, question and columns, and one query.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EtlError } from '../core/errors.ts'
import type { Mart } from '../core/mart.ts'
import { shipped } from '../core/shipped.ts'

export const shippedMarts = shipped('marts')

/** Marts of all folders by name; a later folder's file replaces an earlier one's of the same name. Throws DEFINITION naming file and line. */
export const loadMarts = async (folders: readonly string[]): Promise<readonly Mart[]> => {
  const marts = new Map<string, Mart>()
  for (const folder of new Set([shippedMarts, ...folders])) {
    if (!existsSync(folder)) continue
    for (const name of (await readdir(folder)).filter((one) => one.endsWith('.sql')).sort()) {
      const file = join(folder, name)
      const mart = parseMart(file, name.slice(0, -'.sql'.length), await readFile(file, 'utf8'))
      marts.set(mart.name, mart)
    }
  }
  return ordered([...marts.values()])
}

const wrong = (file: string, line: number, text: string): EtlError => new EtlError('DEFINITION', `${file}:${line}:1: ${text}`)

const headerLine = /^--\s*(kind|purpose|grain|question|reads|key|column)\b\s*([a-z_][a-z0-9_]*)?\s*:\s*(.+)$/

/** @param name the file's name without its ending */
export const parseMart = (file: string, name: string, text: string): Mart => {
  if (!/^[a-z][a-z0-9_]{0,62}$/.test(name))
    throw wrong(file, 1, `'${name}' cannot name a view; use lower-case letters, digits and _, at most 63.`)
  const said = new Map<string, string>()
  const columns = new Map<string, string>()
  const lines = text.split('\n')
  let at = 0
  for (; at < lines.length && (lines[at] ?? '').startsWith('--'); at += 1) {
    const [, word = '', column, value = ''] = headerLine.exec(lines[at] ?? '') ?? []
    if (word === '')
      throw wrong(file, at + 1, `'${lines[at]}' is no header line; expected for example '-- purpose: what it is for'.`)
    if (word === 'column' && column !== undefined) columns.set(column, value.trim())
    else said.set(word, value.trim())
  }
  for (const word of ['purpose', 'grain', 'question'])
    if (!said.has(word)) throw wrong(file, 1, `the header lacks '-- ${word}: …'; a reader of bi is told it.`)
  const summaryOf = summaryPipeline(file, said.get('kind'))
  const key = list(said.get('key'))
  const sql = lines.slice(at).join('\n').trim().replace(/;$/, '')
  if (sql === '') throw wrong(file, at + 1, 'there is no query below the header.')
  if (summaryOf !== null && (key.length === 0 || !sql.includes('{{facts}}')))
    throw wrong(file, 1, "a summary needs '-- key: …' and {{facts}} in its query.")
  return {
    file,
    name,
    summaryOf,
    purpose: said.get('purpose') ?? '',
    grain: said.get('grain') ?? '',
    question: said.get('question') ?? '',
    reads: summaryOf === null ? list(said.get('reads')) : [summaryOf],
    key,
    columns,
    sql,
  }
}

const list = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')

const summaryPipeline = (file: string, kind: string | undefined): string | null => {
  if (kind === undefined || kind === 'view') return null
  const [, pipeline] = /^summary of ([a-z][a-z0-9_]*)$/.exec(kind) ?? []
  if (pipeline === undefined) throw wrong(file, 1, `kind is '${kind}', expected 'view' or 'summary of PIPELINE'.`)
  return pipeline
}

/** Those that others read come first. */
const ordered = (marts: readonly Mart[]): Mart[] => {
  const done: Mart[] = []
  const names = new Set(marts.map(({ name }) => name))
  const visit = (mart: Mart, path: readonly string[]): void => {
    if (done.includes(mart)) return
    if (path.includes(mart.name)) throw wrong(mart.file, 1, `it reads itself: ${[...path, mart.name].join(' > ')}.`)
    for (const read of mart.reads.filter((one) => names.has(one))) {
      const other = marts.find(({ name }) => name === read)
      if (other !== undefined) visit(other, [...path, mart.name])
    }
    done.push(mart)
  }
  for (const mart of marts) visit(mart, [])
  return done
}
