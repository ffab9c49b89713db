// Loads again what was landed, with no call to the service: a range of months, one answer, or answers with rows in quarantine.
import { EtlError } from '../core/errors.ts'
import type { Definition, Window } from '../core/types.ts'
import { inclusiveRange } from '../core/window.ts'
import { claimableOf } from '../ledger/pipelines.ts'
import { type PageEnd, type ReplayScope, answersHeld, answersInQuarantine, landedAnswer } from '../ledger/register-replay.ts'
import { type AnswersInScope, type ReplayResult, runAnswers } from './replay-answers.ts'
import { openAnswer } from './open-answer.ts'
import type { Runtime } from './runtime.ts'

export interface ReplayRange {
  readonly from: string
  readonly to: string
  readonly only: ReplayScope['only']
  readonly signal: AbortSignal
}

interface RangeScope extends ReplayScope {
  readonly range: Window
}

/** Every answer that units of the range hold, or hold back, is parsed and loaded again. Where there is none it says so, and `answers` is 0. */
export const replayRange = async (runtime: Runtime, { from, to, only, signal }: ReplayRange): Promise<ReplayResult> => {
  const scopes: RangeScope[] = []
  for (const definition of runtime.definitions)
    for (const pipelineId of await pipelinesOf(runtime, definition))
      scopes.push({ pipelineId, range: inclusiveRange(from, to, definition.window.every), only, reason: 'replay' })
  const pages = () => pagesOf(runtime, scopes)
  if (!(await isAny(pages())))
    runtime.progress.emit({
      event: 'notice',
      code: 'LANDING_MISSING',
      message: `Nothing from ${from} to ${to} has been landed; load it first with \`millrace backfill\`.`,
    })
  return runAnswers(runtime, {
    command: 'replay',
    arguments: { from, to, pipelines: runtime.definitions.map(({ pipeline }) => pipeline) },
    definitions: runtime.definitions,
    counts: 'holding',
    pages,
    signal,
  })
}

/** One answer, loaded into those of its units that hold no newer one. Throws USAGE where there is none of that number. */
export const replayAnswer = async (runtime: Runtime, answerId: number, signal: AbortSignal): Promise<ReplayResult> => {
  const answer = await landedAnswer(runtime.database.kysely, answerId)
  if (answer === null) throw new EtlError('USAGE', `There is no answer ${answerId}; etl.answers lists them.`)
  await openAnswer(runtime, answer, signal)
  const scope = { pipelineId: answer.pipelineId, range: null, only: null, reason: 'replay' }
  return runAnswers(runtime, {
    command: 'replay',
    arguments: { answer: answerId },
    definitions: runtime.definitions,
    counts: 'all',
    pages: async function* () {
      yield { scope, answers: [answer] }
    },
    signal,
  })
}

/** Empty where the ledger does not know the pipeline yet. */
const pipelinesOf = async (runtime: Runtime, definition: Definition): Promise<readonly number[]> =>
  (await claimableOf(runtime.database.kysely, [definition], runtime.sources)).load

async function* pagesOf(runtime: Runtime, scopes: readonly RangeScope[]): AsyncGenerator<AnswersInScope> {
  for (const scope of scopes)
    for (let end: PageEnd | null | undefined; end !== null; ) {
      const page: Awaited<ReturnType<typeof answersHeld>> = await answersHeld(runtime.database.kysely, scope, end ?? null)
      yield { scope, answers: page.answers }
      end = page.end
    }
}

const isAny = async (pages: AsyncIterable<AnswersInScope>): Promise<boolean> => {
  for await (const { answers } of pages) if (answers.length > 0) return true
  return false
}

/** Where nothing is in quarantine it says so, and the run asks for nothing. */
export const retryQuarantine = async (runtime: Runtime, signal: AbortSignal): Promise<ReplayResult> => {
  const { load } = await runtime.claimable()
  const pipelines = runtime.definitions.map(({ pipeline }) => pipeline)
  const found = await answersInQuarantine(runtime.database.kysely, load)
  if (found.length === 0)
    runtime.progress.emit({
      event: 'notice',
      code: 'NOTHING_TO_DO',
      message: `Nothing of ${pipelines.join(', ')} is in quarantine; there is nothing to retry.`,
    })
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
