// Answers put into a run again, page by page; those whose bytes are gone are left out and said.
import { isEtlError } from '../core/errors.ts'
import { type LandedAnswer, type ReplayPart, type ReplayScope, registerReplay } from '../ledger/register-replay.ts'
import type { PlanCounts } from '../plan/plan-runtime.ts'
import { type RunRequest, type RunResult, runJobs } from './run-jobs.ts'
import type { Runtime } from './runtime.ts'

export interface AnswersInScope {
  readonly scope: ReplayScope
  readonly answers: readonly LandedAnswer[]
}

export interface ReplayRequest extends Omit<RunRequest, 'plan'> {
  readonly pages: () => AsyncIterable<AnswersInScope>
  readonly counts: ReplayPart['counts']
}

export interface ReplayResult extends RunResult {
  /** Answers there are in scope. */
  readonly answers: number
  /** Of them, those that could not be replayed, since their bytes are gone. */
  readonly missing: number
}

/** Each page is a commit: what is registered can be worked on meanwhile. */
export const runAnswers = async (runtime: Runtime, { pages, counts, ...request }: ReplayRequest): Promise<ReplayResult> => {
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
  const result = await runJobs(runtime, { ...request, plan })
  return { ...result, answers: found, missing }
}

const missingWords = ({ landing }: Runtime, missing: number): string =>
  `${missing} answers are no longer in ${landing.place} and were left out; \`millrace backfill … --force\` asks the service for them again.`

const atOnce = 32

const answersHere = async (runtime: Runtime, answers: readonly LandedAnswer[]): Promise<number[]> => {
  const here: number[] = []
  for (let at = 0; at < answers.length; at += atOnce) {
    const some = answers.slice(at, at + atOnce)
    const found = await Promise.all(some.map((answer) => isHere(runtime, answer)))
    here.push(...some.filter((_, place) => found[place]).map(({ answerId }) => answerId))
  }
  return here
}

const isHere = (runtime: Runtime, { landing }: LandedAnswer): Promise<boolean> =>
  runtime.landing.open(landing).then(
    () => true,
    (error: unknown) => {
      if (isEtlError(error) && error.code === 'LANDING_MISSING') return false
      throw error
    },
  )
