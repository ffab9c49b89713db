// The figures of the whole runs, for docs/internals/reliability.md: a row a part, of which a run replaces its own.
import { sectionNow, writeSection } from '../storm/reliability-page.ts'

export interface PartFigures {
  readonly part: string
  readonly tried: number
  /** As many as there were to try; fewer were tried where the time was up before. */
  readonly of: number
  readonly wrong: number
  /** Figures beside the outcome, one text a trial. */
  readonly told: readonly string[]
  readonly seconds: number
  /** Flags that do the same again. */
  readonly flags: string
}

const title = 'Commands beside each other'

const opening = `Method: commands run at the same time on one warehouse, judged from outside: rows against the service's own, purchases against its
books, every process against the clock. Each file in \`test/outsider\` begins with what it tests; samples are part
of \`npm run test:long\`. Again: \`node test/outsider/run.ts --only PART\`, with the flags shown; \`--write\` renews the row.

| part | tried | wrong | figures | time | flags |
| --- | --- | --- | --- | --- | --- |`

const rowOf = ({ part, tried, of, wrong, told, seconds, flags }: PartFigures): string =>
  `| ${part} | ${tried === of ? tried : `${tried} of ${of}`} | ${wrong} | ${told.length <= 3 ? told.join('; ') : ''} | ${Math.round(seconds)} s | ${flags} |`

/** Puts the rows of these parts in place of their former ones. */
export const writeFigures = (figures: readonly PartFigures[]): void => {
  const former = sectionNow(title)
    .split('\n')
    .filter((line) => /^\| (?!part|---)/.test(line))
  const mine = new Set(figures.map(({ part }) => part))
  const kept = former.filter((line) => !mine.has(line.split(' | ')[0]?.slice(2) ?? ''))
  writeSection(title, [opening, ...[...kept, ...figures.map(rowOf)].sort()].join('\n'))
}
