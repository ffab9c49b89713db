// Landings nobody needs any more: superseded, older than the retention setting, and referred to by no unit.
import { sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Shop } from './shop.ts'

const settingName = 'MILLRACE_LANDING_DAYS'
const defaultDays = 400
const dayMs = 24 * 3_600_000

/** Days a superseded landing is kept. Throws CONFIGURATION. */
export const landingDays = (raw: Readonly<Record<string, string>>): number => {
  const text = raw[settingName]
  if (text === undefined || text === '') return defaultDays
  const days = Number(text)
  if (!Number.isInteger(days) || days < 0)
    throw new EtlError('CONFIGURATION', `${settingName} is '${text}', expected a whole number of days.`)
  return days
}

/** Removes them and returns how many. What is loaded, landed or being landed stays, whatever its age. */
export const sweepLandings = async (shop: Shop): Promise<number> => {
  const days = landingDays(shop.settings.raw)
  let removed = 0
  for await (const locator of shop.landing.older(shop.clock.now() - days * dayMs)) {
    const { rows } = await sql`
      select 1 from etl.units where landing = ${locator} or loaded_landing = ${locator}
        or (state = 'running' and starts_with(${locator}, pipeline || '_v' || version || '/' || window_from::text)) limit 1`.execute(
      shop.database.kysely,
    )
    if (rows.length > 0) continue
    await shop.landing.remove(locator)
    removed += 1
  }
  return removed
}
