// How long `millrace plan` takes to price a large range of reports, and how many free requests: it must cost no more than a person is willing to wait.
import { runMeasured } from './measured-command.ts'
import { openNightWorld } from './night-world.ts'
import { median, type Results } from './results.ts'
import type { Sizes } from './sizes.ts'

const countries = ['us', 'gb', 'world']
const months = 36
const pipeline = 'traffic_and_engagement'
/** What the service allows an account: requests a second. */
const rate = 10

/** Units none of which was ever loaded. Throws where a plan buys anything, or leaves units out. */
export const measurePlan = async (
  { planUnits, rounds }: Pick<Sizes, 'planUnits' | 'rounds'>,
  results: Results,
): Promise<void> => {
  const domains = Math.ceil(planUnits / countries.length / months)
  const cells = domains * countries.length * months
  const world = await openNightWorld({ pipeline, domains, countries, months, sandbox: { requestsPerSecond: rate } })
  try {
    const range = ['--from', world.months[0] ?? '', '--to', world.months.at(-1) ?? '']
    const [seconds, asked]: [number[], number[]] = [[], []]
    for (let round = 0; round < rounds; round += 1) {
      const before = world.sandbox.books().requests.length
      const run = await runMeasured(
        world,
        ['plan', pipeline, ...range],
        { 'units.loaded': cells },
        { WEB_ANALYTICS_REQUESTS_PER_SECOND: String(rate) },
      )
      const { requests, submissions } = world.sandbox.books()
      if (submissions.length > 0) throw new Error(`planning bought ${submissions.length} reports`)
      seconds.push(run.seconds)
      asked.push(requests.length - before)
    }
    const of = `${cells} units of ${domains} domains, ${countries.length} countries, ${months} months; nothing bought`
    results.set('price-time', { value: median(seconds), ours: median(seconds), note: of })
    results.set('price-requests', { value: Math.max(...asked), note: 'free; the most of any round' })
  } finally {
    await world.close()
  }
}
