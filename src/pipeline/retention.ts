// Landings nobody needs any more: superseded, older than the retention setting, and referred to by no unit.
import { sql } from 'kysely'
import { EtlError, isEtlError } from '../core/errors.ts'
import type { Runtime } from './runtime.ts'

const settingName = 'MILLRACE_LANDING_DAYS'
const defaultDays = 400
/** No upload that is still going on is as old as this. */
const unfinishedDays = 2
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

/** What sweeping needs of a runtime. */
export type SweepingRuntime = Pick<Runtime, 'settings' | 'landing' | 'clock' | 'database' | 'progress'>

/**
 * Removes them and returns how many. What is loaded, landed or being landed stays, whatever its age. A bucket that does not let it is
 * said and ends nothing: the night's work is done, and the next night sweeps again.
 */
export const sweepLandings = async (runtime: SweepingRuntime): Promise<number> => {
  const days = landingDays(runtime.settings.raw)
  try {
    const removed = await removeOlder(runtime, runtime.clock.now() - days * dayMs)
    await runtime.landing.dropUnfinished(runtime.clock.now() - Math.max(days, unfinishedDays) * dayMs)
    return removed
  } catch (error) {
    if (!isEtlError(error) || !error.code.startsWith('LANDING_')) throw error
    runtime.progress.emit({ event: 'notice', code: error.code, message: `Old landings were not removed: ${error.message}` })
    return 0
  }
}

const removeOlder = async (runtime: SweepingRuntime, olderThanMs: number): Promise<number> => {
  let removed = 0
  for await (const locator of runtime.landing.older(olderThanMs)) {
    const { rows } = await sql`
      select 1 from etl.units where landing = ${locator} or loaded_landing = ${locator}
        or (state = 'running' and starts_with(${locator}, pipeline || '_v' || version || '/' || window_from::text)) limit 1`.execute(
      runtime.database.kysely,
    )
    if (rows.length > 0) continue
    await runtime.landing.remove(locator)
    removed += 1
  }
  return removed
}
