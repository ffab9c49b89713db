// `millrace replay`: parse and load again from the landing, with no call to the service.
import { EtlError } from '../core/errors.ts'
import { inclusiveRange } from '../core/window.ts'
import type { ReplayResult } from '../run/replay-answers.ts'
import { replayAnswer, replayRange } from '../run/replay-range.ts'
import { rangeOf, wholeNumber } from './command-options.ts'
import { withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { parseOnly } from './parse-only.ts'
import { exitCodeOf, printSummary } from './summary.ts'

/** Asks the service for nothing. */
export const handle: Handler = async (invocation) => {
  const { answer } = invocation.options
  return answer === undefined ? replayMonths(invocation) : replayOne(invocation, answer)
}

const replayMonths = async (invocation: Invocation): Promise<number> => {
  if (invocation.args.length === 0)
    throw new EtlError(
      'USAGE',
      'Name the pipelines to replay, or one answer: --answer ID. `millrace replay --help` has examples.',
    )
  const { from, to } = rangeOf(invocation)
  const only = parseOnly(invocation.options['only'])
  inclusiveRange(from, to, 'month')
  return withRuntime(invocation, { callsService: false, usesLanding: true }, async (runtime, progress) => {
    const result = await replayRange(runtime, { from, to, only, signal: invocation.signal })
    progress.stop()
    // Most likely the months or the pipeline are not those that were meant.
    return printReplay(invocation, 'replay', result) || (result.answers === 0 ? 1 : 0)
  })
}

const replayOne = async (invocation: Invocation, answer: unknown): Promise<number> => {
  const { args, options, signal } = invocation
  if (args.length > 0 || ['from', 'to', 'only'].some((name) => options[name] !== undefined))
    throw new EtlError('USAGE', 'An answer knows its pipeline and months: write --answer ID alone.')
  const answerId = wholeNumber(answer, (text) => `--answer is '${text}', expected the number of an answer.`)
  return withRuntime(invocation, { callsService: false, usesLanding: true, pipelines: [] }, async (runtime, progress) => {
    const result = await replayAnswer(runtime, answerId, signal)
    progress.stop()
    return printReplay(invocation, 'replay', result)
  })
}

/** The summary; the exit code is 1 also where an answer could not be replayed because its bytes are gone. */
export const printReplay = ({ output }: Invocation, command: string, result: ReplayResult): number => {
  printSummary(output, command, result)
  const code = exitCodeOf(result, false)
  return code === 0 && result.missing > 0 ? 1 : code
}
