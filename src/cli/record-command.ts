// `millrace record UNIT`: a recorded answer for `millrace test`, cut small from the landing of what a unit holds.
import { recordAnswer } from '../run/record-answer.ts'
import { wholeNumber } from './command-options.ts'
import { pipelinesFolder, withRuntime } from './command-runtime.ts'
import type { Handler } from './command-spec.ts'
import { readRecorded, recordedFile, writeRecorded } from './test-command.ts'

/** Asks the service for nothing. One of the same name is replaced. */
export const handle: Handler = async (invocation) => {
  const { args, options, output } = invocation
  const unitId = wholeNumber(args[0], () => 'Write `millrace record UNIT`; the page and `millrace status` name units by number.')
  const records = wholeNumber(options['records'], () => '--records takes a whole number from 1.')
  return withRuntime(invocation, { callsService: false, usesLanding: true, pipelines: [] }, async (runtime, progress) => {
    const { definition, recorded } = await recordAnswer(runtime, unitId, { records, isAnonymous: options['anonymous'] === true })
    const file = recordedFile(pipelinesFolder(invocation), definition.pipeline)
    const others = (await readRecorded(file)).filter(({ name }) => name !== recorded.name)
    await writeRecorded(file, [...others, recorded])
    progress.stop()
    output.event({
      event: 'summary',
      command: 'record',
      pipeline: definition.pipeline,
      answer: recorded.name,
      rows: recorded.expected.rows.length,
      file,
    })
    output.line(
      `wrote ${recorded.expected.rows.length} rows of ${recorded.name} into ${file}; \`millrace test ${definition.pipeline}\` compares`,
    )
    return 0
  })
}
