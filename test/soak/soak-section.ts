// The soaks' parts of docs/internals/reliability.md.
import type { Course } from './figures.ts'
import type { HostileFigures } from './hostile-soak.ts'
import type { SoakFigures } from './soak.ts'

const shown = ({ early, late, peak }: Course): string =>
  `${Math.round(early)}, then ${Math.round(late)}; at most ${Math.round(peak)}`

export const soakSection = (
  figures: SoakFigures,
): string => `A scheduler whose pipelines are due every minute, ${figures.workers} workers, two readers with open transactions, and a person who asks for
each restated month again with \`--force\`, while the service misbehaves and PostgreSQL is killed (SIGKILL) every 20 seconds.
\`npm run soak -- --minutes 60 --write\` repeats it and writes this section; half a minute of it is part of \`npm run test:long\`.

| figure | ${figures.minutes} minutes |
| --- | --- |
| requests, of which met a fault | ${figures.requests}, ${figures.faults} |
| kills of PostgreSQL; processes that ended and were started again | ${figures.kills}; ${figures.ended} |
| months restated and asked for again; reports bought; units left without a row and released by the person | ${figures.restatements}; ${figures.reports}; ${figures.released} |
| reading transactions that saw the same twice | ${figures.reads} |
| rows at the end; what was wrong | ${figures.rows}; ${figures.wrong.length === 0 ? 'nothing: no cell differs from the truth, no purchase doubled, no id lost' : figures.wrong.join('; ')} |
| memory of the largest process (MB), second quarter and last | ${shown(figures.megabytes)} |
| open files of the process with most | ${shown(figures.files)} |
| connections | ${shown(figures.connections)} |
| dead rows of \`etl\` and \`data\`, counted by pgstattuple | ${shown(figures.deadRows)} |
`

/** Empty where nothing is wrong. */
const told = (wrong: readonly string[]): string =>
  wrong.length === 0 ? '0' : `${wrong.length}: ${wrong.map((text) => text.slice(0, 160).replaceAll(/[\n|]/g, ' ')).join('; ')}`

export const hostileSection = (
  figures: HostileFigures,
): string => `A seeded minute is two to five commands (backfill, \`--force\`, run, plan, check, replay, approve, cancel and others, some at the same time, some killed) over
three pipelines and lists that change, while a service of ill will answers: drips of a byte each 200 ms, report ids with NUL, of 16,000 characters or of another job,
dates in the year 9999, \`Retry-After\` in years, the key in any spelling, storms of 400, web pages as 200, bodies that are cut, redirects to another host. PostgreSQL
hangs (SIGSTOP) for up to six seconds; its clock jumps by seconds, hours and days, also back. After 25 such minutes a warehouse is settled by ordinary commands;
a person adopts what the service's books have, gives up what they do not have, and asks again for what is held.
\`npm run soak -- --hostile --minutes ${figures.minutes} --seed ${figures.seed} --write\` repeats it.

| figure | ${figures.minutes} seeded minutes |
| --- | --- |
| warehouses; commands, of which killed | ${figures.blocks}; ${figures.commands}, ${figures.kills} |
| requests that reached the service; tricks played | ${figures.requests}; ${Object.values(figures.played).reduce((sum, count) => sum + count, 0)} |
| times the database hung; jumps of its clock | ${figures.holds}; ${figures.jumps} |
| commands that took more than half a minute, each saying what it waits for | ${figures.waited} |
| reports bought; rows compared with the truth | ${figures.reports}; ${figures.cells} |
| wrong rows, keys found, purchases doubled, commands without an end or a word: found by this run | ${told(figures.wrong)} |
| time | ${Math.round(figures.seconds)} s |
`
