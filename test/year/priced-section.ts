// The figures of the year with a price, for docs/reliability.md.
import type { PricedFigures } from './priced-year.ts'
import { budget, type PricedWorld } from './priced-world.ts'

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`

export const pricedSection = ({ wave }: PricedWorld, figures: PricedFigures, seconds: number): string => `
The same clock over two pipelines under the guard: reports with a budget of ${budget.toLocaleString('en-US')} credits a month, and pages of keywords; a person approves what waits, some days later. ${wave.length.toLocaleString('en-US')} domains come to the list one night by mistake and leave three days
later; 20 new ones come to stay. For three days in August no scheduler runs, only a worker; in October the service publishes three days late. Both definitions say \`expect: { month_by: 12 }\`.

What must happen is worked out from the calendar and held against the service's own books: what was submitted, when, at which price; each alarm with the day it began and the day it ended.

| figure | value |
| --- | --- |
| credits spent, by the service's books | ${figures.credits.toLocaleString('en-US')} |
| of them for pages, one by one | ${figures.byPage.toLocaleString('en-US')} |
| on record here, by pipeline and by tag | the same, to the credit |
| price of the mistake, which was held | ${figures.heldCredits.toLocaleString('en-US')} |
| bought beyond the guard without approval | ${figures.wrong.filter((line) => line.startsWith('bought')).length} |
| alarms, each begun and ended on its day | ${figures.alarms} |
| forecast of the month's end from the second month on, off by (median of ${figures.days} days) | ${percent(figures.p50)} |
| the same, 95 of 100 days | ${percent(figures.p95)} |
| days it was off by more than 5 %, by month | ${[...figures.offDays].map(([month, days]) => `${month}: ${days}`).join(', ') || 'none'} |
| what is not as it must be | ${figures.wrong.length} |
| real time | ${seconds.toFixed(0)} s |

Again: \`npm run simulated-year -- --priced --write\`.
`
