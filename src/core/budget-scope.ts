// Budgets, set by a definition or the environment: of an account, a pipeline, or a tag (a client, a team or any other name that definitions have
// under `tags`).
import { settingError } from './errors.ts'
import type { Environment } from './read-setting.ts'

export interface Budget {
  /** Credits a calendar month (UTC); null: no limit. */
  readonly perMonth: number | null
  /** Credits a day (UTC); null: no limit. */
  readonly perDay: number | null
  /** What to change to spend more, for messages. */
  readonly setting?: { readonly perMonth: string; readonly perDay: string }
}

/** What may be spent for one tag, over all pipelines that have it. */
export interface TagBudget {
  /** `client` */
  readonly name: string
  /** `acme` */
  readonly value: string
  readonly budget: Budget
}

export const noBudget: Budget = { perMonth: null, perDay: null }

const settingName = 'MILLRACE_TAG_BUDGETS'
const example = 'client=acme:5000/month,client=beta:200/day'

/** `client=acme:5000/month,client=acme:300/day`. Throws CONFIGURATION. */
export const tagBudgets = (environment: Environment): readonly TagBudget[] => {
  const budgets = new Map<string, { name: string; value: string; budget: Budget }>()
  for (const part of (environment[settingName] ?? '').split(',').map((text) => text.trim())) {
    if (part === '') continue
    const [, name, value, credits, period] = /^([a-z][a-z0-9_]*)=([^:]+):(\d{1,15})\/(month|day)$/.exec(part) ?? []
    if (name === undefined || value === undefined || credits === undefined)
      throw settingError(`${settingName} holds '${part}', expected budgets separated by commas, for example ${example}.`)
    const key = `${name}=${value}`
    const former = budgets.get(key)?.budget ?? { perMonth: null, perDay: null }
    const budget = { ...former, ...(period === 'month' ? { perMonth: Number(credits) } : { perDay: Number(credits) }) }
    budgets.set(key, { name, value, budget: { ...budget, setting: { perMonth: settingName, perDay: settingName } } })
  }
  return [...budgets.values()]
}

/** The budgets that a purchase with these tags counts against. */
export const budgetsOf = (all: readonly TagBudget[], tags: Readonly<Record<string, string>>): readonly TagBudget[] =>
  all.filter(({ name, value }) => tags[name] === value)
