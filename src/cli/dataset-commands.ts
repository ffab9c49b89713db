// `millrace new dataset NAME` and `millrace new migration NAME`; `millrace test [pipeline…]`: tests definitions with the recorded answers beside them, without
// requests and without a database; `millrace record UNIT`: makes a small recorded answer from a unit's landing.
import { existsSync, readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { counted } from '../core/counted.ts'
import { EtlError, isEtlError, messageOf, usageError } from '../core/errors.ts'
import { assertFree, type DescribedDataset, newDataset } from '../definition/dataset-files.ts'
import { suggest } from '../definition/problem.ts'
import { placeholder } from '../definition/scope.ts'
import type { Source } from '../extract/source.ts'
import { sourceOf } from '../plan/plan-context.ts'
import { newMigration, type NewMigration } from '../run/new-migration.ts'
import { findSource, openDefinitions } from '../run/open-runtime.ts'
import {
  differences,
  exampleAnswer,
  outcomeOf,
  recordAnswer,
  type Recorded,
  recordedFileSchema,
} from '../run/recorded-answers.ts'
import { replaceFile } from '../semantic/export/replace-file.ts'
import { discover } from './check/discover.ts'
import { pipelinesFolder, settingsOf, wholeNumber, withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'

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
  // Without placeholders the migration can be written at once.
  const { file } = isFilled ? await newMigration(migrationOf(invocation, name)) : { file: null }
  const example = isFilled ? await writeExample(folder, name) : null
  const files = [definition, file, example].flatMap((one) => one ?? []).map((one) => relative(invocation.folder, one))
  output.summary('new', { dataset: name, files, filled: isFilled })
  for (const one of files) output.line(`wrote ${one}`)
  output.line(
    isFilled
      ? `Next: read these files, then \`millrace check\` and \`millrace migrate\`. After a change of the columns \`millrace new migration ${name}\` writes the difference.`
      : `Next: fill in the marked places, then \`millrace new migration ${name}\` and \`millrace migrate\`.`,
  )
  return 0
}

/** Writes a made-up recorded answer. null: the source sells no reports, or recorded answers exist already. */
const writeExample = async (folder: string, name: string): Promise<string | null> => {
  const { definitions, sources } = await openDefinitions(folder, [name])
  const [definition] = definitions
  const source = definition === undefined ? undefined : sources.get(definition.source)
  const file = recordedFile(folder, name)
  if (definition === undefined || source?.kind !== 'report' || existsSync(file)) return null
  await writeRecorded(file, [await exampleAnswer(definition, source)])
  return file
}

/** The service's description of a dataset. null: no service was reached, or it has none; prints why. Throws USAGE for an unknown dataset, and where key or settings are wrong. */
const describedAs = async (invocation: Invocation, source: Source, table: string): Promise<DescribedDataset | null> => {
  const api = source.name.split('.')[0]
  const why = (text: string): null => {
    invocation.output.note(
      `The service was not asked which columns the dataset has (${text}). Fill them in, unless its source declares them.`,
    )
    return null
  }
  const answers = await discover(invocation, 'describe').catch((error: unknown) => {
    // A person can fix these now; a file with placeholders would stop every command until it is filled in.
    if (isEtlError(error) && (error.code === 'KEY_REFUSED' || error.code === 'CONFIGURATION'))
      throw error.with(`${error.message} Or add --offline, and fill in the columns yourself.`)
    return why(messageOf(error))
  })
  if (answers === null) return null
  const datasets = answers.find((answer) => answer.api === api)?.said ?? null
  if (datasets === null) return why('it does not describe its datasets')
  const found = datasets.find((dataset) => dataset.table === table)
  if (found !== undefined) return found
  if (source.datasetOf === undefined && invocation.options['table'] === undefined) return why(`it describes no '${table}'`)
  const names = datasets.map((dataset) => dataset.table)
  throw usageError(
    `The service offers no dataset '${table}' to this key.${suggest(table, names)} \`millrace describe\` lists them; --table names one that has another name there.`,
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
      ? `The table of ${name} matches its definition; there is nothing to write.`
      : 'Next: read it, then `millrace migrate`.',
  )
  return 0
}

/** The file of recorded answers, beside the definition. */
const recordedFile = (folder: string, pipeline: string): string => join(folder, `${pipeline}.recorded.json`)

/** Throws DEFINITION where the file is not as `millrace record` writes it. */
const readRecorded = async (file: string): Promise<readonly Recorded[]> => {
  if (!existsSync(file)) return []
  try {
    return recordedFileSchema.parse(JSON.parse(await readFile(file, 'utf8'))).answers
  } catch (cause) {
    throw new EtlError(
      'DEFINITION',
      `${file} is no file of recorded answers (${messageOf(cause)}); \`millrace record UNIT\` writes one.`,
      { cause },
    )
  }
}

const writeRecorded = (file: string, answers: readonly Recorded[]): Promise<void> =>
  replaceFile(file, (partial) => writeFile(partial, `${JSON.stringify({ answers }, null, 1)}\n`))

/** Exit code 1 where something differs from what was expected. */
export const test: Handler = async (invocation) => {
  const { output, args, options } = invocation
  const folder = pipelinesFolder(invocation)
  const { definitions, sources } = await openDefinitions(folder, args)
  let [tested, failed] = [0, 0]
  for (const definition of definitions) {
    const source = sourceOf({ sources }, definition)
    const file = recordedFile(folder, definition.pipeline)
    const answers = await readRecorded(file)
    const none = `${definition.pipeline}: no recorded answers; \`millrace record UNIT\` makes one`
    if (answers.length === 0 && args.length > 0) throw usageError(none)
    if (answers.length === 0) output.line(none)
    const renewed: Recorded[] = []
    for (const recorded of answers) {
      const found = await outcomeOf(definition, source, recorded).catch(messageOf)
      const said = typeof found === 'string' ? [found] : differences(recorded.expected, found)
      renewed.push(typeof found === 'string' ? recorded : { ...recorded, expected: found })
      tested += 1
      failed += said.length > 0 ? 1 : 0
      output.event({ event: 'tested', pipeline: definition.pipeline, answer: recorded.name, differences: said })
      output.line(`${said.length === 0 ? 'ok    ' : 'FAILED'} ${recorded.name}`)
      for (const one of said) output.line(`       ${one}`)
    }
    if (options['accept'] === true && answers.length > 0) await writeRecorded(file, renewed)
  }
  output.summary('test', { tested, failed })
  const next = failed === 0 ? '' : ' If that is what you want, `millrace test --accept` takes it as expected.'
  output.line(`${counted(tested, 'recorded answer')}, ${failed} failed.${options['accept'] === true ? '' : next}`)
  return failed > 0 && options['accept'] !== true ? 1 : 0
}

/** Sends no request to the service. Replaces a recorded answer of the same name. */
export const record: Handler = async (invocation) => {
  const { args, options, output } = invocation
  const unitId = wholeNumber(args[0], () => 'Write `millrace record UNIT`; the page and `millrace status` name units by number.')
  const records = wholeNumber(options['records'], () => '--records takes a whole number from 1.')
  return withRuntime(invocation, { callsService: false, usesLanding: true, pipelines: [] }, async (runtime, progress) => {
    const { definition, recorded } = await recordAnswer(runtime, unitId, { records, isAnonymous: options['anonymous'] === true })
    const file = recordedFile(pipelinesFolder(invocation), definition.pipeline)
    const others = (await readRecorded(file)).filter(({ name }) => name !== recorded.name)
    await writeRecorded(file, [...others, recorded])
    progress.stop()
    output.summary('record', { pipeline: definition.pipeline, answer: recorded.name, rows: recorded.expected.rows.length, file })
    output.line(
      `wrote ${recorded.expected.rows.length} rows of ${recorded.name} into ${file}; \`millrace test ${definition.pipeline}\` compares`,
    )
    return 0
  })
}
