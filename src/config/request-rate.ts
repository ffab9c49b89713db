// The pace an account allows.
import type { Settings } from './env.ts'
import { EtlError } from '../core/errors.ts'

const rateName = 'WEB_ANALYTICS_REQUESTS_PER_SECOND'

/** The pace the account allows, 10 unless set. Throws CONFIGURATION. */
export const requestsPerSecond = (settings: Settings): number => {
  const text = settings.raw[rateName]
  if (text === undefined || text === '') return 10
  const rate = Number(text)
  if (!(rate > 0 && rate <= 100_000))
    throw new EtlError('CONFIGURATION', `${rateName} is '${text}', expected a number from 0.1 to 100000; the service allows 10.`)
  return rate
}
