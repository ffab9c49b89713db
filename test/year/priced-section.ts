// The figures of the year with a price, for docs/internals/reliability.md.
import { budget, type PricedWorld } from './priced-world.ts'
import type { PricedFigures } from './priced-year.ts'

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`
const many = (value: number): string => value.toLocaleString('en-US')

export const pricedSection = (
  { wave }: Pick<PricedWorld, 'wave'>,
  { credits, byPage, heldCredits, alarms, days, p50, p95, offDays, wrong }: PricedFigures,
  seconds: number,
): string => `
The same clock over two pipelines under the guard: reports with a budget of ${many(budget)} credits a month, and pages of
keywords. A person approves what waits, some days later. ${many(wave.length)} domains come to the list one night by mistake and leave
three days later; 20 new ones come to stay. For three days in August no scheduler runs, only a worker; in October the
service publishes three days late. Both definitions say \`expect: { month_by: 12 }\`.

What must happen follows from the calendar and is compared with the service's own books: what was submitted, when, at
which price; each alarm with the day it began and the day it ended.

| figure | value |
| --- | --- |
| credits spent, by the service's books | ${many(credits)} |
| of them for pages, one by one | ${many(byPage)} |
| on record here, by pipeline and by tag | ${wrong.some((line) => /^(on record|by tag)/.test(line)) ? 'not the same' : 'the same, to the credit'} |
| price of the mistake, which was held | ${many(heldCredits)} |
| bought beyond the guard without approval | ${wrong.filter((line) => line.startsWith('bought')).length} |
| alarms | ${alarms} |
| forecast of the month's end from the second month on, off by (median of ${days} days) | ${percent(p50)} |
| the same, 95 of 100 days | ${percent(p95)} |
| days it was off by more than 5 %, by month | ${[...offDays].map(([month, off]) => `${month}: ${off}`).join(', ') || 'none'} |
| what is not as it must be | ${wrong.length} |
| real time | ${seconds.toFixed(0)} s |
${wrong.length === 0 ? '' : `\nNot as it must be: ${wrong.join('; ')}.\n`}
Again: \`node test/year/run.ts --priced --write\`; twelve days of it are part of \`npm run test:long\`.
`
