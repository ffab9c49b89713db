// The matrix's figures in words, for docs/internals/reliability.md.
import type { Judged, MatrixFigures } from './matrix.ts'

const kindOf = (boundary: string): string => boundary.replace(/[:#].*/, '').trim()

const number = (value: number): string => value.toLocaleString('en-US')

const count = (cells: readonly Judged[], holds: (cell: Judged) => boolean): number => cells.filter(holds).length

const tableOf = (singles: readonly Judged[]): string =>
  [...Map.groupBy(singles, ({ first }) => kindOf(first))]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(
      ([kind, cells]) =>
        `| ${kind} | ${cells.length} | ${count(cells, ({ outcome }) => outcome.held)} | ${count(cells, ({ outcome }) => outcome.wrong.length > 0)} |`,
    )
    .join('\n')

const pairsInWords = (pairs: readonly Judged[], wanted: number): string =>
  pairs.length === 0
    ? 'not measured'
    : `${number(pairs.length)} of ${number(wanted)}, ${number(count(pairs, ({ outcome }) => outcome.reachedAgain))} of which were reached`

const runsInWords = (calm: MatrixFigures['calm']): string =>
  calm
    .map(({ subject, load, boundaries }) => `| of these in ${subject.name}, ${load} load | ${number(boundaries.length)} |`)
    .join('\n')

export const matrixSection = ({ calm, wanted, singles, pairs, seed, seconds }: MatrixFigures): string => `
Method: each outside effect of the command is numbered: a request sent, its answer begun, its answer complete; a file written, synced,
renamed, removed; a statement done; a commit sent and answered. The command is killed (SIGKILL) at each of them, for each pipeline and for a report of 24
units that is loaded month by month (packed), first load and restated load, then given again. Tables, history, dimensions and summaries must then equal those of an
undisturbed run, each unit must have taken as many answers, each row and each ended revision must lead to its answer, no run may wait and no job be open, and
the sandbox's own books must show each report bought once. A kill just before an effect equals one just after the effect before it, so it has no number of its own.

| killed at | kills | held for consent | wrong |
| --- | --- | --- | --- |
${tableOf(singles)}

| figure | value |
| --- | --- |
| boundaries there are | ${number(calm.reduce((sum, { boundaries }) => sum + boundaries.length, 0))} |
${runsInWords(calm)}
| killed at | ${number(singles.length)} of them, drawn with seed ${seed} |
| of these not reached when it was their turn (how often the program polls for work depends on time) | ${number(count(singles, ({ outcome }) => !outcome.reached))} |
| a second kill while recovering, seeded pairs | ${pairsInWords(pairs, wanted.pairs)} |
| warehouses that differ, reports bought twice without consent, units loaded twice | ${number(count([...singles, ...pairs], ({ outcome }) => outcome.wrong.length > 0))} |
| time | ${number(seconds)} s |

Held for consent: the kill fell between the moment the purchase was noted and the moment its answer was; nobody can know whether the service took it. The same command
ends with exit code 1 and names the unit; with \`--resubmit-uncertain\` it loads.

Again: \`npm run crash-matrix -- --write\`; a seeded sample is part of \`npm run test:long\`.
`
