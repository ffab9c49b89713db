// Credits an account may spend over all its pipelines, as the environment says.
import type { Budget } from '../core/budget.ts'
import { EtlError } from '../core/errors.ts'

const monthName = 'WEB_ANALYTICS_QUOTA_PER_MONTH'
const dayName = 'WEB_ANALYTICS_QUOTA_PER_DAY'

/** The account's own budget; `acme` has its name as a suffix, as its key has. Throws CONFIGURATION. */
export const accountBudget = (raw: Readonly<Record<string, string>>, account: string): Budget => {
  const suffix = account === 'default' ? '' : `_${account.toUpperCase()}`
  return { perMonth: credits(raw, `${monthName}${suffix}`), perDay: credits(raw, `${dayName}${suffix}`) }
}

const credits = (raw: Readonly<Record<string, string>>, name: string): number | null => {
  const text = raw[name]
  if (text === undefined || text === '') return null
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 0)
    throw new EtlError('CONFIGURATION', `${name} is '${text}', expected a whole number of credits, for example 50000.`)
  return value
}
