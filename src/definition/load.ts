// Reads the folder of definitions from disk and hands its text to the checks.

import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { EtlError, messageOf } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import { checkDefinitions, type Definitions } from './check.ts'
import { assertNoProblems } from './problem.ts'
import type { ListText } from './scope.ts'

/** Which definitions, and against which sources they are checked. */
export interface LoadOptions {
  /** Folder of `*.yaml`; problems name files as `<folder>/<file>`. */
  readonly folder: string
  readonly sources: ReadonlyMap<string, SourceSpec>
  /** Names of pipelines; absent or empty: all. A broken file that was not asked for does not get in the way. */
  readonly only?: readonly string[] | undefined
}

/** Every definition that is valid and every problem of every file. Throws USAGE when the folder cannot be read. */
export const loadDefinitions = async ({ folder, sources, only }: LoadOptions): Promise<Definitions> => {
  const names = (await filesIn(folder)).filter((name) => /\.ya?ml$/.test(name) && !name.startsWith('.')).sort()
  const files = await Promise.all(
    names.map(async (name) => ({ file: join(folder, name), text: await readFile(join(folder, name), 'utf8') })),
  )
  const result = checkDefinitions({ folder, files, sources, only, readList: (path) => readList(folder, path) })
  if (files.length > 0) return result
  const message = 'the folder holds no *.yaml; `millrace new dataset NAME` writes one.'
  return { definitions: [], problems: [{ file: folder, line: 1, column: 1, message }] }
}

/** Throws one DEFINITION error listing every problem; does nothing when there is none. */
export const assertDefinitions = ({ problems }: Definitions): void => assertNoProblems(problems)

const filesIn = async (folder: string): Promise<readonly string[]> => {
  try {
    return await readdir(folder)
  } catch (cause) {
    throw new EtlError(
      'USAGE',
      `The folder of definitions '${folder}' cannot be read (${messageOf(cause)}); name it with --pipelines DIR.`,
      { cause },
    )
  }
}

const readList = (folder: string, path: string): ListText & { shown: string } => {
  const shown = isAbsolute(path) ? path : join(folder, path)
  try {
    return { shown, text: readFileSync(shown, 'utf8') }
  } catch (cause) {
    return { shown, failure: messageOf(cause).startsWith('ENOENT') ? 'does not exist' : `cannot be read (${messageOf(cause)})` }
  }
}
