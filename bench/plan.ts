// How long `millrace plan` takes over so many units of reports, and how many free requests: node bench/plan.ts [units]
import { runMeasured } from './measured-command.ts'
import { openNightWorld } from './night-world.ts'

const countries = ['us', 'gb', 'world']
const months = 36
const units = Number(process.argv[2] ?? 100_000)
const domains = Math.ceil(units / countries.length / months)
const pipeline = 'traffic_and_engagement'
/** Goals: seconds, free requests. */
const [most, calls] = [30, 50]

const world = await openNightWorld({ pipeline, domains, countries, months, sandbox: { requestsPerSecond: 10 } })
try {
  const cells = domains * countries.length * months
  const range = ['--from', world.months[0] ?? '', '--to', world.months.at(-1) ?? '']
  const before = world.sandbox.books().requests.length
  const run = await runMeasured(
    world,
    ['plan', pipeline, ...range],
    { 'units.loaded': cells },
    { WEB_ANALYTICS_REQUESTS_PER_SECOND: '10' },
  )
  const { requests, submissions } = world.sandbox.books()
  const asked = requests.length - before
  process.stdout.write(
    `${cells} units planned in ${run.seconds.toFixed(1)} s (goal ${most}) with ${asked} free requests (goal ${calls}), ${submissions.length} reports bought (goal 0)\n`,
  )
  process.exitCode = run.seconds <= most && asked <= calls && submissions.length === 0 ? 0 : 1
} finally {
  await world.close()
}
