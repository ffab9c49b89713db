// `millrace init FOLDER`: makes a repository for a user, with pipelines, settings, and files that run it every night.
import { existsSync, readFileSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { z } from 'zod'
import { counted } from '../core/counted.ts'
import { usageError } from '../core/errors.ts'
import { packageFile, shipped, version } from '../core/shipped.ts'
import { makeFolders } from '../core/disk-error.ts'
import type { Handler } from './command-spec.ts'

/** npm packs no file of these names, so the templates have others. */
const hidden: Readonly<Record<string, string>> = { gitignore: '.gitignore', 'env.example': '.env.example' }

export const init: Handler = async ({ args, options, folder, output }) => {
  const target = resolve(folder, args[0] ?? '.')
  const name = basename(target)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, '-')
  if (!/^[a-z0-9]/.test(name))
    throw usageError(`'${args[0]}' gives no name for the repository; write for example \`millrace init my-warehouse\`.`)
  const withLists = ownLists(options)
  const files = await planFiles(target)
  const taken = files.filter(({ to }) => existsSync(to)).map(({ to }) => relative(folder, to))
  if (taken.length > 0) throw usageError(`${takenWords(taken)} already, nothing was written; choose an empty folder.`)
  const origin = ownOrigin(target)
  for (const { from, to } of files) {
    await makeFolders(dirname(to))
    const text = await readFile(from, 'utf8')
    // Comments in definitions link to docs/; in the new repository the docs are in the package.
    if (from.startsWith(shipped('pipelines')))
      await writeFile(to, withLists(from, text.replaceAll(/(?<=^#.* )docs\//gm, 'node_modules/millrace/docs/')))
    else await writeFile(to, text.replaceAll('{{name}}', name).replaceAll('{{version}}', origin))
  }
  const written = files.map(({ to }) => relative(folder, to)).sort()
  output.summary('init', { folder: target, files: written, millrace: origin })
  output.line(`wrote ${counted(written.length, 'file')} below ${relative(folder, target) || '.'}`)
  if (origin.startsWith('file:'))
    output.line(
      `package.json takes Millrace from where this program came: ${origin}. Write a version there once a registry has it.`,
    )
  output.line()
  output.line('Next:')
  if (target !== resolve(folder)) output.line(`  cd ${quoted(relative(folder, target))}`)
  output.line('  npm install')
  output.line('  npx millrace sandbox         in a second terminal: a free stand-in for the service')
  output.line('  cp .env.example .env         address and key: of the sandbox, or your own')
  output.line('  npx millrace migrate         free: makes tables and views')
  output.line('  npx millrace check           free: finds every problem in one go')
  output.line('  npx millrace plan            free: what the first run loads and costs')
  output.line('  npx millrace run             spends credits at the real service')
  return 0
}

const takenWords = ([first = '', ...rest]: readonly string[]): string =>
  rest.length === 0 ? `${first} exists` : `${first} and ${counted(rest.length, 'other file')} exist`

const planFiles = async (target: string) => {
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

const [pattern, flags] = ['^( +country: )\\[.*\\]$', 'm']
const listOfPlaces = new RegExp(pattern, flags)

/** Puts the reader's own lists into a shipped file of `pipelines`. Throws USAGE. Without either option every file stays as it is. */
const ownLists = (options: Readonly<Record<string, unknown>>) => {
  const sites = valuesOf(
    options['domains'],
    /^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$/,
    (value) => `--domains has '${value}', which is no domain; write for example --domains a.com,b.com, without https:// and www.`,
  )
  const places = valuesOf(options['countries'], /^(?!uk$)(?:[a-z]{2}|world)$/, (value) =>
    value === 'uk'
      ? `--countries has '${value}', which is not the ISO code of a country; write gb.`
      : `--countries has '${value}', which is no country; write for example --countries us,gb: two small letters each, or world.`,
  )
  return (file: string, text: string): string => {
    if (sites !== null && file.endsWith('domains.txt')) return withLines(text, sites)
    if (places !== null && file.endsWith('.yaml')) return text.replace(listOfPlaces, `$1[${places.join(', ')}]`)
    return text
  }
}

/** The option's values; null: not given, the example lists stay. */
const valuesOf = (text: unknown, form: RegExp, wrong: (value: string) => string): readonly string[] | null => {
  if (text === undefined) return null
  const values = String(text).split(/, */)
  const unfit = values.find((value) => !form.test(value))
  if (unfit !== undefined) throw usageError(wrong(unfit))
  return values
}

/** The file's heading comments with other values below. */
const withLines = (text: string, values: readonly string[]): string =>
  [...text.split('\n').filter((line) => line.startsWith('#')), ...values, ''].join('\n')

const lockSchema = z.object({ packages: z.record(z.string(), z.looseObject({ resolved: z.string().optional() })) })

/**
 * Where npm finds this Millrace: the version if it came from a registry; `file:…` if it came from a file or is a checkout.
 * @param folder of the new package.json
 */
const ownOrigin = (folder: string): string => {
  const own = dirname(packageFile())
  const at = own.indexOf(`${sep}node_modules${sep}`)
  if (at < 0) return fileFrom(folder, own)
  // The project that has the outermost node_modules, and the package's path in it as npm writes it.
  const [project, inside] = [own.slice(0, at), withSlashes(own.slice(at + 1))]
  const lock = join(project, 'node_modules', '.package-lock.json')
  if (!existsSync(lock)) return version
  const parsed = lockSchema.safeParse(JSON.parse(readFileSync(lock, 'utf8')))
  const resolved = parsed.success ? parsed.data.packages[inside]?.resolved : undefined
  if (resolved === undefined || !resolved.startsWith('file:')) return version
  return fileFrom(folder, resolve(project, resolved.slice('file:'.length)))
}

const withSlashes = (path: string): string => path.split(sep).join('/')

const fileFrom = (folder: string, target: string): string => `file:${withSlashes(relative(folder, target))}`

/** Quoted for a shell where necessary. */
const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)
