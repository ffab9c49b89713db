// The soak's part of docs/internals/reliability.md.
import type { Course } from './figures.ts'
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
