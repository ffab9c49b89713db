// Finds the files that come with the program, and its version. No other file knows how deep the code is in a checkout or in the compiled program.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { isRecord } from './json.ts'

/** The checkout or `dist/`: the folder that holds the code and, beside it, the shipped templates, migrations and definitions. */
const findRoot = (): string => {
  for (let folder = import.meta.dirname; folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, 'templates')) && existsSync(join(folder, 'migrations'))) return folder
  }
  throw new Error(`The installation of Millrace is incomplete: no migrations above ${import.meta.dirname}. Run \`npm ci\` again.`)
}

const root = findRoot()

/** Absolute path of a file or folder that ships: `shipped('migrations')`, `shipped('src', 'sources')`. */
export const shipped = (...path: readonly string[]): string => join(root, ...path)

/** The path of a page of the shipped docs, relative to the working folder. */
export const docPage = (name: string): string => {
  const pages = [shipped('docs'), shipped('..', 'docs')].find(existsSync) ?? 'docs'
  return relative(process.cwd(), join(pages, name))
}

/** The package.json of this program: beside the checkout's folders, or above `dist/`. */
export const packageFile = (): string => [shipped('package.json'), shipped('..', 'package.json')].find(existsSync) ?? ''

const parsed: unknown = JSON.parse(readFileSync(packageFile(), 'utf8'))

export const version = isRecord(parsed) && typeof parsed['version'] === 'string' ? parsed['version'] : 'unknown'
