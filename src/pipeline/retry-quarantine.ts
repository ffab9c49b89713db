// Answers with rows in quarantine, loaded again from their landing: after a definition was corrected, without a call.
import { EtlError } from '../core/errors.ts'
import { answersInQuarantine } from '../ledger/replay.ts'
import { type ReplayResult, runAnswers } from './replay-answers.ts'
import type { Runtime } from './runtime.ts'

/** Throws USAGE when nothing is in quarantine. */
export const retryQuarantine = async (runtime: Runtime, signal: AbortSignal): Promise<ReplayResult> => {
  const { load } = await runtime.claimable()
  const pipelines = runtime.definitions.map(({ pipeline }) => pipeline)
  const found = await answersInQuarantine(runtime.database.kysely, load)
  if (found.length === 0)
    throw new EtlError('USAGE', `Nothing of ${pipelines.join(', ')} is in quarantine; there is nothing to retry.`)
  return runAnswers(runtime, {
    command: 'quarantine retry',
    arguments: { pipelines },
    definitions: runtime.definitions,
    counts: 'holding',
    pages: async function* () {
      for (const [pipelineId, answers] of Map.groupBy(found, (answer) => answer.pipelineId))
        yield { scope: { pipelineId, range: null, only: null, reason: 'quarantine retry' }, answers }
    },
    signal,
  })
}
