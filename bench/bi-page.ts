// The page of dashboards' figures: what was measured on one server takes the place of what that server had before; nobody types a number.
import { readFileSync, writeFileSync } from 'node:fs'

/** Milliseconds of one question in one circumstance. */
export interface Timed {
  readonly median: number
  readonly p95: number
}

/** One question as it was measured. */
export interface Answered {
  readonly name: string
  readonly rows: number
  /** Pages of 8 KiB, in memory or not. */
  readonly pages: number
  readonly alone: Timed
  readonly fresh: Timed
  readonly beside: Timed
}

/** Where and when. */
export interface Occasion {
  readonly server: string
  readonly rows: number
  readonly months: number
  readonly rounds: number
  /** Load averages of a minute, least and most. */
  readonly busy: readonly [number, number]
  /** Units that were loaded meanwhile, and rows each. */
  readonly loads: number
  readonly rowsLoaded: number
  readonly goalMs: number
}

const count = new Intl.NumberFormat('en-US')
const ms = ({ median, p95 }: Timed): string => `${median.toFixed(0)} | ${p95.toFixed(0)}`

const slowest = (answered: readonly Answered[]): number =>
  Math.max(...answered.flatMap(({ alone, fresh, beside }) => [alone.p95, fresh.p95, beside.p95]))

export const sectionOf = (at: Occasion, answered: readonly Answered[]): string => {
  const over = answered.filter((one) => slowest([one]) > at.goalMs)
  const verdict =
    over.length === 0
      ? `All ${answered.length} questions stay within ${at.goalMs} ms`
      : `${answered.length - over.length} of ${answered.length} questions stay within ${at.goalMs} ms; not ${over.map(({ name }) => `"${name}"`).join(', ')}`
  return [
    `${count.format(at.rows)} keyword rows of ${at.months} months, 50 domains, 2 countries; ${at.rounds} rounds each; 2 cores, load average of the machine ${at.busy[0].toFixed(1)} to ${at.busy[1].toFixed(1)}.`,
    `${verdict}`,
    `at the 95th percentile; the slowest takes ${slowest(answered).toFixed(0)} ms. Milliseconds at the median and the 95th percentile: with no load into the warehouse; right after one;`,
    `and beside one (${at.loads} units of about ${count.format(at.rowsLoaded)} rows were loaded meanwhile, one row in twenty changed).`,
    '',
    '| question | rows | pages | alone | 95th | after | 95th | beside | 95th |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...answered.map(
      (one) => `| ${one.name} | ${one.rows} | ${one.pages} | ${ms(one.alone)} | ${ms(one.fresh)} | ${ms(one.beside)} |`,
    ),
  ].join('\n')
}

/** Puts the section between the two marks of its server. Throws where the page has none. */
export const writeSection = (page: string, server: string, section: string): void => {
  const text = readFileSync(page, 'utf8')
  const [open, close] = [`<!-- measured on ${server} -->`, `<!-- end of ${server} -->`]
  const [from, to] = [text.indexOf(open), text.indexOf(close)]
  if (from < 0 || to < from) throw new Error(`${page} has no place for ${server}: write ${open} and ${close}`)
  writeFileSync(page, `${text.slice(0, from + open.length)}\n${section}\n${text.slice(to)}`)
}
