// The storm's figures in words, for docs/internals/reliability.md.
import type { StormFigures } from './fault-storm.ts'

const number = (value: number): string => value.toLocaleString('en-US')

export const stormSection = (figures: StormFigures): string => `
Method: seeded mixes of the sandbox's faults over all three pipelines, first load and restated loads; the same command again until it is
done, then once with the consent its messages ask for. After **every** command each unit is compared, rows and history, with a run that met no fault.
Again: \`node test/storm/run.ts --jobs ${figures.jobs} --seed ${figures.seed} --write\`; a sample is part of \`npm run test:long\`.

| figure | value |
| --- | --- |
| jobs (pages and reports); units | ${number(figures.jobs)}; ${number(figures.units)} |
| rows, ended revisions | ${number(figures.rows)}, ${number(figures.revisions)} |
| commands, of which succeeded | ${number(figures.commands)}, ${number(figures.green)} |
| requests, of which met a fault of the exchange or page | ${number(figures.requests)}, ${number(figures.faults)} (${figures.faultKinds} kinds) |
| units lost, doubled, changed outside their answer; success with wrong data; bought without consent | ${figures.wrong.length} |
| reports bought | ${number(figures.reports)} |
| of these again, with consent, after a lost answer or a failed report | ${number(figures.again)} |
| units that keep their former rows and say so (report never finished, cut off or bad, answer empty) | ${number(figures.left)} |
| time | ${number(figures.seconds)} s |
`
