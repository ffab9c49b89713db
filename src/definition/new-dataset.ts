// `millrace new dataset NAME`: a definition and its migration, made from one another, to fill in.
import { mkdir, readdir, readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EtlError, messageOf } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import { checkDefinitions } from './check.ts'
import { datasetMigration, datasetYaml } from './dataset-files.ts'
import { pipelineNameProblem } from './names.ts'
import { assertNoProblems } from './problem.ts'
import type { ListText } from './scope.ts'

export interface NewDataset {
  readonly name: string
  readonly source: SourceSpec
  /** Folder of the definitions. */
  readonly folder: string
  readonly migrationsFolder: string
  /** Names of migrations that come before, wherever they lie: the new one is numbered after them. */
  readonly earlier?: readonly string[]
}

/** Writes `<folder>/<name>.yaml` and the next migration; returns both paths. Throws USAGE, having written nothing, when either is there. */
export const newDataset = async ({ name, source, folder, migrationsFolder, earlier = [] }: NewDataset): Promise<string[]> => {
  checkName(name)
  const definitions = await filesIn(folder)
  const migrations = await filesIn(migrationsFolder)
  await checkFree(name, folder, definitions, migrationsFolder, migrations)
  const file = join(folder, `${name}.yaml`)
  const lists = definitions.filter((one) => one.endsWith('.txt'))
  const text = datasetYaml({ name, source, listFiles: lists })
  const readList = await listReader(folder, lists)
  const { definitions: made, problems } = checkDefinitions({
    folder,
    files: [{ file, text }],
    sources: new Map([[source.name, source]]),
    readList,
  })
  assertNoProblems(problems)
  const definition = made[0]
  if (definition === undefined) throw new EtlError('INTERNAL', `No definition was made for '${name}'; please report this.`)
  const migration = join(migrationsFolder, `${nextNumber([...migrations, ...earlier])}_${name}_v1.ts`)
  await writeBoth([file, text], [migration, datasetMigration(definition)])
  return [file, migration]
}

const checkName = (name: string): void => {
  const wrong = /^[a-z][a-z0-9_]*$/.test(name)
    ? pipelineNameProblem(name, 1)
    : `'${name}' is not a name of lower-case letters, digits and _ that begins with a letter; write for example traffic_sources.`
  if (wrong !== null) throw new EtlError('USAGE', wrong)
}

const checkFree = async (
  name: string,
  folder: string,
  definitions: readonly string[],
  migrationsFolder: string,
  migrations: readonly string[],
): Promise<void> => {
  const migration = migrations.find((one) => one.replace(/^\d+_/, '') === `${name}_v1.ts`)
  const taken = migration === undefined ? await definitionOf(name, folder, definitions) : join(migrationsFolder, migration)
  if (taken === null) return
  throw new EtlError('USAGE', `${taken} exists already, nothing was written; choose another name or remove the file first.`)
}

const definitionOf = async (name: string, folder: string, files: readonly string[]): Promise<string | null> => {
  for (const file of files.filter((one) => /\.ya?ml$/.test(one))) {
    const defines = new RegExp(`^pipeline:\\s*["']?${name}["']?\\s*(#.*)?$`, 'm').test(await readFile(join(folder, file), 'utf8'))
    if (defines || file.replace(/\.ya?ml$/, '') === name) return join(folder, file)
  }
  return null
}

const filesIn = async (folder: string): Promise<readonly string[]> => {
  try {
    await mkdir(folder, { recursive: true })
    return await readdir(folder)
  } catch (cause) {
    throw new EtlError(
      'USAGE',
      `The folder '${folder}' cannot be used (${messageOf(cause)}); name another with --pipelines DIR.`,
      {
        cause,
      },
    )
  }
}

const listReader = async (folder: string, lists: readonly string[]): Promise<(path: string) => ListText & { shown: string }> => {
  const texts = new Map(await Promise.all(lists.map(async (one) => [one, await readFile(join(folder, one), 'utf8')] as const)))
  return (path) => {
    const text = texts.get(path)
    return { shown: join(folder, path), ...(text === undefined ? { failure: 'does not exist' } : { text }) }
  }
}

const nextNumber = (migrations: readonly string[]): string => {
  const numbers = migrations.map((file) => Number(/^(\d{4})_/.exec(file)?.[1] ?? 0))
  return String(Math.max(0, ...numbers) + 1).padStart(4, '0')
}

const writeBoth = async (...files: readonly (readonly [path: string, text: string])[]): Promise<void> => {
  const written: string[] = []
  try {
    for (const [path, text] of files) {
      await writeFile(path, text, { flag: 'wx' })
      written.push(path)
    }
  } catch (cause) {
    for (const path of written) await unlink(path)
    throw new EtlError('DISK', `The files of the dataset cannot be written (${messageOf(cause)}); nothing was left behind.`, {
      cause,
    })
  }
}
