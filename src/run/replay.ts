// Loads landed answers again without a call to the service: those of a range of months, one answer, or all with rows in quarantine.
import { counted } from '../core/counted.ts'
import { EtlError, isEtlError } from '../core/errors.ts'
import type { Window } from '../core/types.ts'
import { inclusiveRange } from '../core/window.ts'
import { claimableOf } from '../ledger/pipelines.ts'
import {
  type PageEnd,
  type ReplayScope,
  answersHeld,
  answersInQuarantine,
  landedAnswer,
  type KeptAnswer,
  type ReplayPart,
  registerReplay,
} from '../ledger/register-replay.ts'
import { openAnswer } from './open-answer.ts'
import type { Runtime } from './runtime.ts'
import type { PlanCounts } from '../plan/plan-runtime.ts'
import { inBatches } from '../plan/sample-windows.ts'
import { type RunRequest, type RunResult, runJobs } from './run-jobs.ts'

interface ReplayRange {
  readonly from: string
  readonly to: string
  readonly only: ReplayScope['only']
  readonly signal: AbortSignal
}

interface RangeScope extends ReplayScope {
  readonly range: Window
}

/** Parses and loads again every answer that units of the range hold or hold back. Without any it emits a notice, and `answers` is 0. */
export const replayRange = async (runtime: Runtime, { from, to, only, signal }: ReplayRange): Promise<ReplayResult> => {
  const scopes: RangeScope[] = []
  // `load` is empty where the ledger does not know the pipeline yet.
  for (const definition of runtime.definitions)
    for (const pipelineId of (await claimableOf(runtime.database.kysely, [definition], runtime.sources)).load)
      scopes.push({ pipelineId, range: inclusiveRange(from, to, definition.window.every), only, reason: 'replay' })
  const result = await runAnswers(runtime, {
    command: 'replay',
    arguments: { from, to, pipelines: runtime.definitions.map(({ pipeline }) => pipeline) },
    counts: 'holding',
    pages: () => pagesOf(runtime, scopes),
    signal,
  })
  const message = `Nothing from ${from} to ${to} has been landed; load it first with \`millrace backfill\`.`
  if (result.answers === 0) runtime.progress.emit({ event: 'notice', code: 'LANDING_MISSING', message })
  return result
}

/** Loads one answer into those of its units that hold no newer one. Throws USAGE where no answer has that number. */
export const replayAnswer = async (runtime: Runtime, answerId: number, signal: AbortSignal): Promise<ReplayResult> => {
  const answer = await landedAnswer(runtime.database.kysely, answerId)
  if (answer === null) throw new EtlError('USAGE', `There is no answer ${answerId}; etl.answers lists them.`)
  await openAnswer(runtime, answer, signal)
  const scope = { pipelineId: answer.pipelineId, range: null, only: null, reason: 'replay' }
  return runAnswers(runtime, {
    command: 'replay',
    arguments: { answer: answerId },
    counts: 'all',
    pages: async function* () {
      yield { scope, answers: [answer] }
    },
    signal,
  })
}

async function* pagesOf(runtime: Runtime, scopes: readonly RangeScope[]): AsyncGenerator<AnswersInScope> {
  for (const scope of scopes)
    for (let end: PageEnd | null | undefined; end !== null; ) {
      const page: Awaited<ReturnType<typeof answersHeld>> = await answersHeld(runtime.database.kysely, scope, end ?? null)
      yield { scope, answers: page.answers }
      end = page.end
    }
}

/** Where nothing is in quarantine it emits a notice, and the run has no jobs. */
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
    counts: 'holding',
    pages: async function* () {
      for (const [pipelineId, answers] of Map.groupBy(found, (answer) => answer.pipelineId))
        yield { scope: { pipelineId, range: null, only: null, reason: 'quarantine retry' }, answers }
    },
    signal,
  })
}

interface AnswersInScope {
  readonly scope: ReplayScope
  readonly answers: readonly KeptAnswer[]
}

interface ReplayRequest extends Omit<RunRequest, 'plan' | 'definitions'> {
  readonly pages: () => AsyncIterable<AnswersInScope>
  readonly counts: ReplayPart['counts']
}

export interface ReplayResult extends RunResult {
  /** Answers there are in scope. */
  readonly answers: number
  /** Of them, those that could not be replayed, since their bytes are gone. */
  readonly missing: number
}

/** Each page of answers is a commit, so that its jobs can be worked on while the next page is registered. */
const runAnswers = async (runtime: Runtime, { pages, counts, ...request }: ReplayRequest): Promise<ReplayResult> => {
  let [found, missing] = [0, 0]
  const plan = async (runId: number): Promise<PlanCounts> => {
    let [jobs, units] = [0, 0]
    for await (const { scope, answers } of pages()) {
      request.signal.throwIfAborted()
      const answerIds = await answersHere(runtime, answers)
      found += answers.length
      missing += answers.length - answerIds.length
      const added = await runtime.database.kysely
        .transaction()
        .execute((trx) => registerReplay(trx, runId, scope, { answerIds, priority: jobs, counts }))
      jobs += added.jobs
      units += added.units
    }
    if (missing > 0) runtime.progress.emit({ event: 'notice', code: 'LANDING_MISSING', message: missingWords(runtime, missing) })
    return { units, jobs, done: 0, held: 0, notPublished: 0 }
  }
  const result = await runJobs(runtime, { ...request, definitions: runtime.definitions, plan })
  return { ...result, answers: found, missing }
}

const missingWords = ({ landing }: Runtime, missing: number): string =>
  `Skipped: ${counted(missing, 'answer')} ${missing === 1 ? 'that is' : 'that are'} no longer in ${landing.place}; \`millrace backfill … --force\` asks the service again.`

const atOnce = 32

const answersHere = async (runtime: Runtime, answers: readonly KeptAnswer[]): Promise<number[]> => {
  const found = await inBatches(answers, atOnce, (answer) => isHere(runtime, answer))
  return answers.filter((_, place) => found[place]).map(({ answerId }) => answerId)
}

const isHere = (runtime: Runtime, { landing }: KeptAnswer): Promise<boolean> =>
  runtime.landing.open(landing).then(
    () => true,
    (error: unknown) => {
      if (!isEtlError(error)) throw error
      if (error.code === 'LANDING_MISSING') return false
      // Only the job that opens it fails, and names it; the others load. A file that cannot be read is such a case, too.
      if (error.code === 'LANDING_CORRUPT' || error.code === 'DISK') return true
      throw error
    },
  )
