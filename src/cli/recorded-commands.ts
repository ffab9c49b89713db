// `millrace test [pipeline…]`: definitions over the recorded answers beside them, without a request and without a database. `millrace record UNIT` cuts one
// small from the landing of what a unit holds.
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { EtlError, messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { openDefinitions } from '../run/open-runtime.ts'
import { recordAnswer } from '../run/recorded-answers.ts'
import { differences, outcomeOf, type Recorded, recordedFileSchema } from '../run/recorded-answers.ts'
import { wholeNumber } from './command-options.ts'
import { pipelinesFolder, withRuntime } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'

/** Beside the definition. */
export const recordedFile = (folder: string, pipeline: string): string => join(folder, `${pipeline}.recorded.json`)

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

export const writeRecorded = (file: string, answers: readonly Recorded[]): Promise<void> =>
  writeFile(file, `${JSON.stringify({ answers }, null, 1)}\n`)

/** Exit code 1 where something differs from what was expected. */
export const test: Handler = async (invocation) => {
  const { output, args, options } = invocation
  const folder = pipelinesFolder(invocation)
  const { definitions, sources } = await openDefinitions(folder, args)
  let [tested, failed] = [0, 0]
  for (const definition of definitions) {
    const file = recordedFile(folder, definition.pipeline)
    const answers = await readRecorded(file)
    if (answers.length === 0) output.line(`${definition.pipeline}: no recorded answers; \`millrace record UNIT\` makes one`)
    const renewed: Recorded[] = []
    for (const recorded of answers) {
      const found = await tryOutcome(definition, sources, recorded)
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
  output.line(`${tested} recorded answers, ${failed} failed.${options['accept'] === true ? '' : next}`)
  return failed > 0 && options['accept'] !== true ? 1 : 0
}

const tryOutcome = async (
  definition: Definition,
  sources: Awaited<ReturnType<typeof openDefinitions>>['sources'],
  recorded: Recorded,
): ReturnType<typeof outcomeOf> extends Promise<infer Found> ? Promise<Found | string> : never => {
  const source = sources.get(definition.source)
  if (source === undefined) return `there is no source '${definition.source}'`
  return outcomeOf(definition, source, recorded).catch(messageOf)
}

/** Asks the service for nothing. One of the same name is replaced. */
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
