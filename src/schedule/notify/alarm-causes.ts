// Everything that is wrong now: what the ledger says, budgets, and what should have happened. Whoever adds a kind of alarm adds its reader here.
import type { Cause } from '../../core/alarm.ts'
import { timeIn } from '../../core/window.ts'
import { causesInLedger } from '../../ledger/causes.ts'
import { scheduledOf, untakenTicks } from '../../run/scheduled.ts'
import type { Runtime } from '../../run/runtime.ts'
import { quotaCauses } from './budgets.ts'
import { dueCauses } from './due.ts'

/** A night that is this late is a cause of its own. */
const lateMs = 60 * 60_000

/** A condition is raised by being among them and is over once it is not: readers say what holds now and remember nothing. */
export const causes = async (runtime: Runtime): Promise<readonly Cause[]> => [
  ...(await causesInLedger(runtime.database.kysely)),
  ...(await quotaCauses(runtime)),
  ...(await lateCauses(runtime)),
  ...(await dueCauses(runtime)),
]

const lateCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const late: Cause[] = []
  for (const entry of scheduledOf(runtime.definitions)) {
    const missed = (await untakenTicks(runtime, entry)).filter((dueMs) => dueMs < runtime.clock.now() - lateMs)
    const [oldest] = missed
    if (oldest === undefined) continue
    const { pipeline } = entry.definition
    const { schedule } = entry
    const due = new Date(oldest).toISOString()
    late.push({
      cause: `late/${pipeline}`,
      kind: 'late',
      pipeline,
      grouping: 'late',
      message: `${pipeline} was due at ${timeIn(oldest, schedule.timeZone)} (${schedule.timeZone}) and has not run${more(missed.length)}; is \`millrace schedule\` running?`,
      changed: 'Nobody took its tick, although the definition names a schedule.',
      nextStep: 'Start `millrace schedule` again, or run `millrace run` once; what is due is made up for.',
      details: { due_at: due, missed: missed.length },
    })
  }
  return late
}

const more = (missed: number): string => (missed > 1 ? ` (${missed} ticks so far)` : '')
