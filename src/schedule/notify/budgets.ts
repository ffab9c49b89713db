// Budgets of a month that are spent, or nearly: a pipeline's, an account's, a tag's.
import { tagBudgets } from '../../core/tag-budgets.ts'
import type { Cause } from '../../core/alarm.ts'
import { apiNameOf } from '../../core/source-spec.ts'
import { type QuotaSpent, quotaThisMonth, tagThisMonth } from '../../ledger/spent.ts'
import type { Runtime } from '../../run/runtime.ts'

/** Percent of a month's budget from which on it is a cause. */
const quotaLevels = [80, 100] as const

export const quotaCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const spent = await quotaThisMonth(runtime.database.kysely)
  const byAccount = Map.groupBy(spent, ({ account, source }) => `account ${account} of ${apiNameOf(source)}`)
  return [
    ...runtime.definitions.flatMap(({ pipeline, limits }) =>
      levelsReached(runtime, pipeline, pipeline, sum(spent.filter((row) => row.pipeline === pipeline)), limits.quotaPerMonth),
    ),
    ...(await tagCauses(runtime)),
    ...[...byAccount].flatMap(([whose, rows]) => levelsReached(runtime, null, whose, sum(rows), accountBudget(runtime, rows))),
  ]
}

/** A tag's budget holds all pipelines that have it, so that it is nobody's alone. */
const tagCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const found: Cause[] = []
  for (const { name, value, budget } of tagBudgets(runtime.settings.raw))
    for (const { api, spent } of await tagThisMonth(runtime.database.kysely, name, value))
      found.push(...levelsReached(runtime, null, `${name} ${value} of ${api}`, spent, budget.perMonth))
  return found
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
