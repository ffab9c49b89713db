// `millrace new dataset NAME`: the definition of one more dataset.
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EtlError, messageOf } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import { type DescribedDataset, datasetYaml } from './dataset-files.ts'
import { pipelineNameProblem } from './names.ts'

/** What `millrace new dataset` was asked for. */
export interface NewDataset {
  readonly name: string
  readonly source: SourceSpec
  /** Folder of the definitions. */
  readonly folder: string
  /** What the service calls the dataset, and says of it; null: it was not asked, or does not say. */
  readonly table?: string
  readonly described?: DescribedDataset | null
}

/** Writes `<folder>/<name>.yaml` and returns its path. Throws USAGE, having written nothing, when the dataset is there. */
export const newDataset = async ({ name, source, folder, table = name, described = null }: NewDataset): Promise<string> => {
  checkName(name)
  const files = await filesIn(folder)
  const taken = await definitionOf(name, folder, files)
  if (taken !== null)
    throw new EtlError('USAGE', `${taken} exists already, nothing was written; choose another name or remove the file first.`)
  const file = join(folder, `${name}.yaml`)
  const lists = files.filter((one) => one.endsWith('.txt'))
  const text = datasetYaml({ name, table, source, described, listFiles: lists })
  try {
    await writeFile(file, text, { flag: 'wx' })
  } catch (cause) {
    throw new EtlError('DISK', `${file} cannot be written: ${messageOf(cause)}.`, { cause })
  }
  return file
}

const checkName = (name: string): void => {
  const wrong = /^[a-z][a-z0-9_]*$/.test(name)
    ? pipelineNameProblem(name, 1)
    : `'${name}' is not a name of lower-case letters, digits and _ that begins with a letter; write for example traffic_sources.`
  if (wrong !== null) throw new EtlError('USAGE', wrong)
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
