// `millrace new dataset NAME` and `millrace new migration NAME`.
import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { EtlError } from '../core/errors.ts'
import { assertFree, type DescribedDataset, newDataset } from '../definition/dataset-files.ts'
import { suggest } from '../definition/problem.ts'
import { placeholder } from '../definition/scope.ts'
import type { Source } from '../extract/source.ts'
import { type NewMigration, newMigration } from '../run/new-migration.ts'
import { exampleAnswer } from '../run/recorded-answers.ts'
import { findSource, openDefinitions } from '../run/open-runtime.ts'
import { discover } from './check/discover.ts'
import { pipelinesFolder, settingsOf } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { recordedFile, writeRecorded } from './recorded-commands.ts'

/** Writes over nothing. */
export const newFiles: Handler = (invocation) => {
  const [kind, name = ''] = invocation.args
  return kind === 'dataset' ? writeDataset(invocation, name) : writeMigration(invocation, name)
}

const writeDataset = async (invocation: Invocation, name: string): Promise<number> => {
  const { output, options } = invocation
  const folder = pipelinesFolder(invocation)
  const source = await findSource(folder, typeof options['source'] === 'string' ? options['source'] : null)
  await assertFree(name, folder)
  const table = typeof options['table'] === 'string' ? options['table'] : name
  const described =
    source.openFields === true && options['offline'] !== true ? await describedAs(invocation, source, table) : null
  const definition = await newDataset({ name, source, folder, table, described })
  const isFilled = !readFileSync(definition, 'utf8').includes(placeholder)
  // Nothing is left to fill in: its table can be written at once.
  const { file } = isFilled ? await newMigration(migrationOf(invocation, name)) : { file: null }
  const example = isFilled ? await writeExample(folder, name) : null
  const files = [definition, file, example].flatMap((one) => one ?? []).map((one) => relative(invocation.folder, one))
  output.summary('new', { dataset: name, files, filled: isFilled })
  for (const one of files) output.line(`wrote ${one}`)
  output.line(
    isFilled
      ? `Next: read these files, then \`millrace check\` and \`millrace migrate\`. After a change of the columns \`millrace new migration ${name}\` writes the difference.`
      : `Next: fill in what is marked, then \`millrace new migration ${name}\` and \`millrace migrate\`.`,
  )
  return 0
}

/** null: its source is none of reports, or there are recorded answers already. */
const writeExample = async (folder: string, name: string): Promise<string | null> => {
  const { definitions, sources } = await openDefinitions(folder, [name])
  const [definition] = definitions
  const source = definition === undefined ? undefined : sources.get(definition.source)
  const file = recordedFile(folder, name)
  if (definition === undefined || source?.kind !== 'report' || existsSync(file)) return null
  await writeRecorded(file, [await exampleAnswer(definition, source)])
  return file
}

/** null: no service was reached, or it does not describe its datasets; why is said. Throws USAGE where it offers no such dataset. */
const describedAs = async (invocation: Invocation, source: Source, table: string): Promise<DescribedDataset | null> => {
  const api = source.name.split('.')[0]
  const why = (text: string): null => {
    invocation.output.note(`The service was not asked what the dataset holds (${text}). Its columns are left to fill in.`)
    return null
  }
  const answers = await discover(invocation, 'describe').catch((error: unknown) =>
    why(error instanceof Error ? error.message : String(error)),
  )
  if (answers === null) return null
  const datasets = answers.find((answer) => answer.api === api)?.said ?? null
  if (datasets === null) return why('it does not describe its datasets')
  const found = datasets.find((dataset) => dataset.table === table)
  if (found !== undefined) return found
  const names = datasets.map((dataset) => dataset.table)
  throw new EtlError(
    'USAGE',
    `The service offers no dataset '${table}' to this key.${suggest(table, names)} \`millrace describe\` lists them; --table names one that is called otherwise there.`,
  )
}

const migrationOf = (invocation: Invocation, name: string): NewMigration => ({
  pipeline: name,
  pipelinesFolder: pipelinesFolder(invocation),
  settings: () => settingsOf(invocation),
})

const writeMigration = async (invocation: Invocation, name: string): Promise<number> => {
  const { output } = invocation
  const { file, kind } = await newMigration(migrationOf(invocation, name))
  const files = file === null ? [] : [relative(invocation.folder, file)]
  output.summary('new', { migration: name, kind, files })
  for (const one of files) output.line(`wrote ${one}`)
  output.line(
    file === null
      ? `The table of ${name} is as its definition says; there is nothing to write.`
      : 'Next: read it, then `millrace migrate`.',
  )
  return 0
}
