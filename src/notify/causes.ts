// Everything that is wrong now: what the ledger says, budgets, and what should have happened. Whoever adds a kind of alarm adds its reader here.
import type { Cause } from '../core/alarms.ts'
import { apiNameOf } from '../core/source-spec.ts'
import { causesInLedger } from '../ledger/causes.ts'
import { type QuotaSpent, quotaThisMonth } from '../ledger/month-spent.ts'
import { scheduledOf, untakenTicks } from '../pipeline/scheduled.ts'
import type { Runtime } from '../pipeline/runtime.ts'
import { dueCauses } from './due.ts'

/** A night that is this late is a cause of its own. */
const lateMs = 60 * 60_000
/** Percent of a month's budget from which on it is a cause. */
const quotaLevels = [80, 100] as const

/** A condition is raised by being among them and is over once it is not: readers say what holds now and remember nothing. */
export const causes = async (runtime: Runtime): Promise<readonly Cause[]> => [
  ...(await causesInLedger(runtime.database.kysely)),
  ...(await quotaCauses(runtime)),
  ...(await lateCauses(runtime)),
  ...(await dueCauses(runtime)),
]

const quotaCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const spent = await quotaThisMonth(runtime.database.kysely)
  const byAccount = Map.groupBy(spent, ({ account, source }) => `account ${account} of ${apiNameOf(source)}`)
  return [
    ...runtime.definitions.flatMap(({ pipeline, limits }) =>
      levelsReached(runtime, pipeline, pipeline, sum(spent.filter((row) => row.pipeline === pipeline)), limits.quotaPerMonth),
    ),
    ...[...byAccount].flatMap(([whose, rows]) => levelsReached(runtime, null, whose, sum(rows), accountBudget(runtime, rows))),
  ]
}

/** What was spent may have been spent for an API that is gone. */
const accountBudget = (runtime: Runtime, [first]: readonly QuotaSpent[]): number | null => {
  if (first === undefined || ![...runtime.sources.keys()].some((name) => apiNameOf(name) === apiNameOf(first.source))) return null
  return runtime.allowance(first).budget.perMonth
}

const sum = (rows: readonly QuotaSpent[]): number => rows.reduce((total, { spent }) => total + spent, 0)

/** The first warning is not over when the second comes. */
const levelsReached = (
  runtime: Runtime,
  pipeline: string | null,
  whose: string,
  spent: number,
  budget: number | null,
): Cause[] => {
  const month = new Date(runtime.clock.now()).toISOString().slice(0, 7)
  if (budget === null || spent === 0) return []
  return quotaLevels
    .filter((level) => spent * 100 >= budget * level)
    .map((level) => ({
      cause: `quota/${whose}/${month}/${level}`,
      kind: 'quota' as const,
      severity: level === 100 ? ('error' as const) : ('warning' as const),
      pipeline,
      message: `${whose} has spent or reserved ${spent} of its ${budget} credits for ${month} (${level} % reached).`,
      changed:
        level === 100
          ? 'No further report is bought in its name this month.'
          : `${budget - spent} credits are left until the month ends.`,
      nextStep: '`millrace quota` shows who spent them; `millrace plan` what the next night would buy.',
      details: { month, spent, budget, level },
    }))
}

const lateCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const late: Cause[] = []
  for (const entry of scheduledOf(runtime.definitions)) {
    const missed = (await untakenTicks(runtime, entry)).filter((dueMs) => dueMs < runtime.clock.now() - lateMs)
    const [oldest] = missed
    if (oldest === undefined) continue
    const { pipeline } = entry.definition
    const due = new Date(oldest).toISOString()
    late.push({
      cause: `late/${pipeline}`,
      kind: 'late',
      pipeline,
      grouping: 'late',
      message: `${pipeline} was due at ${due} and has not run${more(missed.length)}; is \`millrace schedule\` running?`,
      changed: 'Nobody took its tick, although the definition names a schedule.',
      nextStep: 'Start `millrace schedule` again, or run `millrace run` once; what is due is made up for.',
      details: { due_at: due, missed: missed.length },
    })
  }
  return late
}

const more = (missed: number): string => (missed > 1 ? ` (${missed} ticks so far)` : '')
