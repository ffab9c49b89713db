// Credits that may be spent: by a pipeline, as its definition says, and by an account over all its pipelines, as the environment says.
import { EtlError } from './errors.ts'

export interface Budget {
  /** Credits a calendar month (UTC); null: no limit. */
  readonly perMonth: number | null
  /** Credits a day (UTC); null: no limit. */
  readonly perDay: number | null
}

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
