// Units packed into reports: how many are bought, at what price, how long they take against one at a time, and in how much memory; and one very wide report.
import { runMeasured } from './measured-command.ts'
import { openNightWorld } from './night-world.ts'
import type { Results } from './results.ts'
import type { Sizes } from './sizes.ts'
import { wideSource } from './wide-source.ts'

const [domains, months] = [1_000, 36]
const countries = ['us', 'gb', 'world']
/** Columns that are bought. */
const metrics = 6
/** Domains of a report as it was bought before, for one country and month. */
const formerDomains = 100
const pipeline = 'traffic_and_engagement'
/** What the service allows an account: requests a second, unfinished reports. */
const [rate, open] = [10, 100]

export const measurePacked = async ({ reportSeconds }: Pick<Sizes, 'reportSeconds'>, results: Results): Promise<void> => {
  const sandbox = { reportDurationMs: reportSeconds * 1000, requestsPerSecond: rate, openReports: open }
  const world = await openNightWorld({ pipeline, domains, countries, months, sandbox })
  try {
    const cells = domains * countries.length * months
    const range = ['--from', world.months[0] ?? '', '--to', world.months.at(-1) ?? '']
    const before = world.sandbox.books().requests.length
    const run = await runMeasured(
      world,
      ['backfill', pipeline, ...range],
      { 'units.loaded': cells },
      { WEB_ANALYTICS_REQUESTS_PER_SECOND: String(rate) },
    )
    const { submissions, quotaUsed, requests } = world.sandbox.books()
    const each = (requests.length - before) / submissions.length
    const former = (domains / formerDomains) * countries.length * months
    const formerSeconds = Math.max(Math.ceil(former / open) * reportSeconds, (former * each) / rate)
    process.stderr.write(
      `  ${submissions.length} reports, ${quotaUsed} credits, ${run.seconds.toFixed(1)} s, ${Math.round(run.peakMegabytes ?? 0)} MB\n`,
    )
    results.set('packed-reports', { value: submissions.length, note: `instead of ${former}` })
    results.set('packed-credits', { value: quotaUsed / (cells * metrics), note: `${quotaUsed} credits` })
    results.set('packed-wall', {
      value: run.seconds / formerSeconds,
      ours: run.seconds,
      note: `${reportSeconds} s a report; ${former} of them, ${open} at once and each in ${each} requests at ${rate} a second, take ${Math.round(formerSeconds)} s or more`,
    })
    if (run.peakMegabytes !== null)
      results.set('packed-memory', { value: run.peakMegabytes, note: `${cells} units of a row each` })
  } finally {
    await world.close()
  }
}

const wideDomains = 40_000

/** One month of them in one report. */
export const measureWide = async (results: Results): Promise<void> => {
  const edit = (yaml: string): string => yaml.replace('source: web-analytics.report', 'source: web-analytics.wide-report')
  const world = await openNightWorld({ pipeline, domains: wideDomains, countries: ['us'], months: 1, edit, source: wideSource })
  try {
    const [month = ''] = world.months
    const expected = { 'units.loaded': wideDomains, reports_submitted: 1 }
    const first = await runMeasured(world, ['backfill', pipeline, '--from', month, '--to', month], expected)
    const again = await runMeasured(world, ['backfill', pipeline, '--from', month, '--to', month, '--force'], {
      reports_submitted: 1,
      'rows.inserted': 0,
    })
    const peaks = [first, again].map((run) => run.peakMegabytes ?? Number.NaN)
    const said = [first, again].map((run, index) => `${run.seconds.toFixed(1)} s, ${Math.round(peaks[index] ?? 0)} MB`)
    process.stderr.write(`  ${wideDomains} domains: ${said.join('; again: ')}\n`)
    results.set('wide-memory', { value: Math.max(...peaks), note: `first ${said[0]}; again by force ${said[1]}` })
  } finally {
    await world.close()
  }
}
