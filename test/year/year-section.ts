// The year's figures in words, for docs/internals/reliability.md.
import type { YearFigures } from './findings.ts'
import type { YearWorld } from './world.ts'
import { failingNight, outage, restatements } from './year.ts'

export const yearSection = (world: YearWorld, figures: YearFigures, seconds: number): string => `
Method: a year passes hour by hour on one clock for program, service and database, over three pipelines in three time zones (${world.pipelines.map(({ timeZone }) => timeZone).join(', ')}) whose
schedules daylight saving skips and repeats. Two schedulers keep time. The service publishes on the 10th, settles volumes and prices on the 14th and restates ${restatements.length} months besides
(${restatements.map(({ at, month }) => `${month} on ${at.slice(0, 10)}`).join(', ')}); for three days in
September its reports have an unexpected column; on the night of ${failingNight.to.slice(0, 10)} it answers nothing but
errors; the first month's budget does not pay for all that is due; from ${outage.from.slice(0, 10)} to ${outage.to.slice(0, 10)} no scheduler runs at all.

The expected result of each night is computed from the calendar alone and compared: the ticks, each window's loads (one a published version), the reports bought, each message; at the end the
tables equal those of a warehouse that is filled in one go.

| figure | value |
| --- | --- |
| days | ${Math.round((world.endMs - world.startMs) / 86_400_000)} |
| ticks, each taken once | ${figures.nights} |
| windows | ${figures.windows} |
| published versions seen, each loaded once | ${figures.versions} |
| reports bought | ${figures.reports} |
| messages | ${figures.messages} |
| ticks, loads, reports, messages or tables that are not as they must be | ${figures.wrong.length} |
| real time | ${seconds.toFixed(0)} s |

Again: \`node test/year/run.ts --write\`; seven weeks of it is part of \`npm run test:long\`.
`
