// `millrace init FOLDER`: a repository of one's own with pipelines, settings, and what runs it every night.
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { EtlError } from '../core/errors.ts'
import { shipped } from '../core/shipped.ts'
import type { Handler } from './command-spec.ts'
import { some } from './output.ts'
import { ownLists } from './own-lists.ts'
import { ownOrigin } from './own-origin.ts'

/** npm packs no file of these names, so the templates have others. */
const hidden: Readonly<Record<string, string>> = { gitignore: '.gitignore', 'env.example': '.env.example' }

/** Writes over nothing. */
export const handle: Handler = async ({ args, options, folder, output }) => {
  const target = resolve(folder, args[0] ?? '.')
  const name = basename(target)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, '-')
  if (!/^[a-z0-9]/.test(name))
    throw new EtlError(
      'USAGE',
      `'${args[0]}' gives no name for the repository; write for example \`millrace init my-warehouse\`.`,
    )
  const withLists = ownLists(options)
  const files = await planFiles(target)
  const taken = files.filter(({ to }) => existsSync(to)).map(({ to }) => relative(folder, to))
  if (taken.length > 0) throw new EtlError('USAGE', `${takenWords(taken)} already, nothing was written; choose an empty folder.`)
  const origin = ownOrigin(target)
  for (const { from, to } of files) {
    await mkdir(dirname(to), { recursive: true })
    const text = await readFile(from, 'utf8')
    if (from.startsWith(shipped('pipelines'))) await writeFile(to, withLists(from, text))
    else await writeFile(to, text.replaceAll('{{name}}', name).replaceAll('{{version}}', origin))
  }
  const written = files.map(({ to }) => relative(folder, to)).sort()
  output.event({ event: 'summary', command: 'init', folder: target, files: written, millrace: origin })
  output.line(`wrote ${some(written.length, 'file')} below ${relative(folder, target) || '.'}`)
  if (origin.startsWith('file:'))
    output.line(
      `package.json takes Millrace from where this program came: ${origin}. Write a version there once a registry has it.`,
    )
  output.line()
  output.line('Next:')
  if (target !== resolve(folder)) output.line(`  cd ${quoted(relative(folder, target))}`)
  output.line('  npm install')
  output.line('  npx millrace demo            free: synthetic data, nothing to set up')
  output.line('  cp .env.example .env         the address, your key, your database')
  output.line('  npx millrace check           free: finds every problem in one go')
  output.line('  npx millrace migrate         free: makes tables and views')
  output.line('  npx millrace plan            free: what the first run loads and costs')
  output.line('  npx millrace run             spends credits')
  return 0
}

/** As a shell takes it. */
const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)

const takenWords = ([first = '', ...rest]: readonly string[]): string =>
  rest.length === 0 ? `${first} exists` : `${first} and ${some(rest.length, 'other file')} exist`

interface FileToWrite {
  readonly from: string
  readonly to: string
}

const planFiles = async (target: string): Promise<FileToWrite[]> => {
  const templates = shipped('templates', 'warehouse')
  return [
    ...(await below(templates)).map((path) => ({ from: join(templates, path), to: join(target, hidden[path] ?? path) })),
    ...(await below(shipped('pipelines'))).map((path) => ({
      from: shipped('pipelines', path),
      to: join(target, 'pipelines', path),
    })),
  ]
}

const below = async (folder: string): Promise<string[]> =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
