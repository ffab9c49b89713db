// The figures of the long backfill as a section of docs/internals/reliability.md.

export interface LongBackfill {
  readonly months: { readonly from: string; readonly to: string; readonly count: number }
  readonly domains: number
  readonly signals: readonly string[]
  readonly units: number
  /** Rows by table of `data`, histories included. */
  readonly rows: Readonly<Record<string, number>>
  /** Submissions whose answer a kill lost. */
  readonly uncertain: number
  /** Each progress line after the first quarter: what it foretold of the whole time against what it took, as a fraction. */
  readonly timeLeftErrors: readonly number[]
  readonly calm: Books
  readonly stormy: Books
}

export interface Books {
  readonly submissions: number
  readonly quotaUsed: number
  readonly counts: Readonly<Record<string, number>>
  readonly seconds: number
}

const number = (value: number): string => value.toLocaleString('en')

export const longBackfillSection = ({ calm, stormy, ...of }: LongBackfill): string => {
  const line = (name: string, value: (books: Books) => number): string =>
    `| ${name} | ${number(value(calm))} | ${number(value(stormy))} |`
  const rows = Object.entries(of.rows).filter(([table]) => !table.endsWith('_history'))
  const history = Object.entries(of.rows)
    .filter(([table]) => table.endsWith('_history'))
    .reduce((sum, [, count]) => sum + count, 0)
  const requests = [...new Set([...Object.keys(calm.counts), ...Object.keys(stormy.counts)])].sort()
  return `\`LONG_BACKFILL=whole npx vitest run test/e2e/long-backfill.test.ts\`: ${of.months.count} months (${of.months.from}..${of.months.to}) of ${of.domains} domains in two countries over all three pipelines against the sandbox, once
undisturbed and once interrupted ${of.signals.length} times (${of.signals.join(', ')}), each time after the process had loaded something of its own or bought
its first report, then finished by the same command. Rows and history are compared by digest, without run ids and times, and were equal.

| | undisturbed | interrupted ${of.signals.length} times |
| --- | --- | --- |
| units loaded | ${number(of.units)} | ${number(of.units)} |
${rows.map(([table, count]) => `| rows of ${table} | ${number(count)} | ${number(count)} |`).join('\n')}
| rows of history | ${number(history)} | ${number(history)} |
${line('reports submitted, by the sandbox’s books', ({ submissions }) => submissions)}
| submissions whose answer a kill lost: held, then bought again by \`--resubmit-uncertain\` alone | 0 | ${number(of.uncertain)} |
${line('quota', ({ quotaUsed }) => quotaUsed)}
${requests.map((name) => line(`requests: ${name}`, ({ counts }) => counts[name] ?? 0)).join('\n')}
${line('seconds, all starts together', ({ seconds }) => Math.round(seconds))}

The undisturbed run's progress lines after the first quarter predicted the whole time with errors of ${of.timeLeftErrors.map((error) => `${(error * 100).toFixed(0)} %`).join(', ')}.
The moments of the kills differ from run to run; in most runs no answer is lost. \`npm run test:long\` does the same with 6 months of 6 domains.`
}
