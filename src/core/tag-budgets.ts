// Budgets of tags: what may be spent for a client, a team or whatever else definitions name under `tags`.
import type { Budget, TagBudget } from './budget-scope.ts'
import { EtlError } from './errors.ts'
import type { Environment } from './read-setting.ts'

const settingName = 'MILLRACE_TAG_BUDGETS'
const example = 'client=acme:5000/month,client=beta:200/day'

/** `client=acme:5000/month,client=acme:300/day`. Throws CONFIGURATION. */
export const tagBudgets = (environment: Environment): readonly TagBudget[] => {
  const budgets = new Map<string, { name: string; value: string; budget: Budget }>()
  for (const part of (environment[settingName] ?? '').split(',').map((text) => text.trim())) {
    if (part === '') continue
    const [, name, value, credits, period] = /^([a-z][a-z0-9_]*)=([^:]+):(\d{1,15})\/(month|day)$/.exec(part) ?? []
    if (name === undefined || value === undefined || credits === undefined)
      throw new EtlError(
        'CONFIGURATION',
        `${settingName} holds '${part}', expected budgets separated by commas, for example ${example}.`,
      )
    const key = `${name}=${value}`
    const former = budgets.get(key)?.budget ?? { perMonth: null, perDay: null }
    const budget = { ...former, ...(period === 'month' ? { perMonth: Number(credits) } : { perDay: Number(credits) }) }
    budgets.set(key, { name, value, budget: { ...budget, setting: { perMonth: settingName, perDay: settingName } } })
  }
  return [...budgets.values()]
}

/** Those that purchases with these tags are paid from. */
export const budgetsOf = (all: readonly TagBudget[], tags: Readonly<Record<string, string>>): readonly TagBudget[] =>
  all.filter(({ name, value }) => tags[name] === value)
