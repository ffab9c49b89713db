// A dashboard's questions against a large warehouse: median, 95th percentile and pages read. Run: npm run bench:bi -- --rows 50000000
// Options: --rounds, --home (kept, and measured as it is where it is filled), --database URL (a server of one's own, emptied by nobody),
// --question (a part of the questions' names).
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { passingSecret } from '../src/core/redact.ts'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { migrate } from '../src/db/migrate.ts'
import { loadMarts } from '../src/definition/marts.ts'
import { publish } from '../src/publish/publish.ts'
import { openDefinitions } from '../src/pipeline/open-runtime.ts'
import { fillKeywords, months } from './bi-data.ts'

const { values: options } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000000' },
    rounds: { type: 'string', default: '20' },
    home: { type: 'string' },
    database: { type: 'string' },
    question: { type: 'string', default: '' },
  },
})
const wanted = Number(options.rows)
const rounds = Number(options.rounds)
/** Given: the warehouse stays there and is used again. */
const keptHome = options.home
const only = options.question
const goalMs = { median: 100, p95: 500 } as const

const log = (text: string): void => void process.stderr.write(`${text}\n`)
const pick = (round: number, of: number): number => (round * 7919) % of
const month = (round: number): string => months[1 + pick(round, months.length - 1)] ?? '2025-12-01'
const domain = (round: number): string => `domain-${1 + pick(round, 50)}.example`
const keywords = (round: number): string =>
  Array.from({ length: 500 }, (_, at) => `'shared keyword ${3 * (1 + ((at * 13 + round) % 1_000))}'`).join(', ')

const questions: Readonly<Record<string, (round: number) => string>> = {
  'clicks by month and domain, everything': () =>
    'select month, domain, sum(clicks) as clicks from bi.keyword_months group by month, domain order by 1, 2',
  'positions of a domain over two years': (round) =>
    `select month, bucket, keywords, clicks from bi.keyword_positions where domain = '${domain(round)}' and country = 'us' order by 1, 2`,
  'brand share of all domains in a month': (round) =>
    `select domain, share_brand from bi.keyword_brand where month = '${month(round)}' and country = 'us'`,
  'intent mix of a domain over two years': (round) =>
    `select month, intent, share_of_clicks from bi.keyword_intent_mix where domain = '${domain(round)}' and country = 'us'`,
  'month over month of a domain, 50 largest changes': (round) =>
    `select keyword, movement, clicks, clicks_change from bi.keyword_month_over_month where month = '${month(round)}'
      and domain = '${domain(round)}' and country = 'us' order by abs(clicks_change) desc limit 50`,
  'month over month of a domain, keywords by movement': (round) =>
    `select movement, count(*), sum(clicks_change) from bi.keyword_month_over_month where month = '${month(round)}'
      and domain = '${domain(round)}' and country = 'us' group by 1`,
  'share of voice, 500 keywords, all domains, a month': (round) =>
    `select domain, sum(clicks) as clicks, sum(clicks_all) as clicks_all from bi.keyword_share_of_voice where month = '${month(round)}'
      and country = 'us' and keyword in (${keywords(round)}) group by 1 order by 2 desc`,
  'gap between two domains, 50 largest': (round) =>
    `select keyword, clicks_of_other from bi.keyword_gap where month = '${month(round)}' and country = 'us' and domain = '${domain(round)}'
      and other_domain = '${domain(round + 1)}' order by 2 desc limit 50`,
  'largest 100 keywords of a domain in a month': (round) =>
    `select keyword, clicks, position from bi.keywords where month = '${month(round)}' and domain = '${domain(round)}' and country = 'us'
      order by clicks desc nulls last limit 100`,
  'the same as believed yesterday': (round) =>
    `select keyword, clicks, position from bi.keywords_as_of(now() - interval '1 day') where month = '${month(round)}'
      and domain = '${domain(round)}' and country = 'us' order by clicks desc nulls last limit 100`,
  'growth over the month before, all domains': (round) =>
    `select sum(clicks) filter (where is_comparable) / sum(clicks_before) filter (where is_comparable) - 1, count(*) from bi.keyword_comparison
      where month = '${month(round)}' and comparison = 'previous' and country = 'us'`,
  'growth over the year, month by month, by domain': () =>
    `select month, domain, clicks / nullif(clicks_before, 0) - 1 from bi.keyword_comparison where months_back = 12 and country = 'us'`,
  'what is loaded, month by month': () =>
    `select month, completeness, is_complete from bi.coverage_months where pipeline = 'keywords'`,
  'lost keywords of the newest month, one domain, 25 largest': (round) =>
    `select keyword, clicks_before, clicks_change from bi.keyword_month_over_month where is_newest and domain = '${domain(round)}' and country = 'us'
      order by clicks_change limit 25`,
  'gap in the newest month, 25 largest': (round) =>
    `select keyword, clicks_of_other from bi.keyword_gap where is_newest and country = 'us' and domain = '${domain(round)}'
      and other_domain = '${domain(round + 1)}' order by 2 desc limit 25`,
  'quarter against the one before, a domain, 25 largest losses': (round) =>
    `select keyword, clicks_change from bi.keyword_movements where period = 'quarter' and starts_on = '2025-04-01' and months_back = 3
      and domain = '${domain(round)}' and country = 'us' order by 2 limit 25`,
  'a fiscal quarter by the calendar, a domain': (round) =>
    `select month, sum(clicks) from bi.keywords where month between (select min(date) from bi.dim_date where fiscal_quarter_name = 'FY2025 Q2')
      and (select max(date) from bi.dim_date where fiscal_quarter_name = 'FY2025 Q2') and domain = '${domain(round)}' and country = 'us' group by 1`,
  'sections of a site in a month': (round) =>
    `select section, sum(clicks) from bi.landing_pages where month = '${month(round)}' and domain = '${domain(round)}' and country = 'us' group by 1
      order by 2 desc limit 20`,
  'restatements of a domain in a month': (round) =>
    `select clicks_first, clicks_now from bi.keyword_restatements where month = '${month(round)}' and domain = '${domain(round)}' and country = 'us'`,
  'one keyword of a domain over two years': (round) =>
    `select month, sum(clicks), min(position) from bi.keywords where domain = '${domain(round)}' and country = 'us' and traffic_source = 'All'
      and web_source = 'Total' and branded_type = 'All' and keyword = 'shared keyword ${3 * (1 + pick(round, 500))}' group by 1`,
}

const prepare = async (database: Database): Promise<number> => {
  await migrate(database, { folders: [] })
  const { definitions } = await openDefinitions(join(dirname(import.meta.dirname), 'pipelines'), [])
  log(`filling up to ${wanted} rows`)
  await fillKeywords(database, wanted, log)
  const started = performance.now()
  await publish(database, definitions, await loadMarts([]))
  await database.pool.query('analyze bi.keyword_months, bi.keyword_intents')
  log(`published in ${((performance.now() - started) / 1000).toFixed(1)} s`)
  const { rows } = await database.pool.query<{ rows: string }>(
    `select coalesce(sum(c.reltuples), 0)::bigint as rows from pg_class c join pg_inherits i on i.inhrelid = c.oid
      where i.inhparent = 'data.keywords_v1'::regclass and c.reltuples > 0`,
  )
  return Number(rows[0]?.rows ?? 0)
}

interface Explained {
  readonly 'QUERY PLAN': readonly [
    { readonly Plan: { readonly 'Shared Hit Blocks': number; readonly 'Shared Read Blocks': number } },
  ]
}

/** Pages of 8 KiB the server looked at, in memory or not: what does not depend on what else the machine does. */
const pagesOf = async (database: Database, question: string): Promise<number> => {
  const { rows } = await database.pool.query<Explained>(`explain (analyze, buffers, format json) ${question}`)
  const plan = rows[0]?.['QUERY PLAN'][0].Plan
  return plan === undefined ? 0 : plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
}

const measure = async (database: Database, name: string, question: (round: number) => string): Promise<string> => {
  const times: number[] = []
  let answered = 0
  for (let round = 0; round < rounds; round += 1) {
    const started = performance.now()
    answered = (await database.pool.query(question(round))).rowCount ?? 0
    times.push(performance.now() - started)
  }
  const sorted = times.sort((a, b) => a - b)
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0
  const p95 = sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * 0.95) - 1)] ?? 0
  const holds = median <= goalMs.median && p95 <= goalMs.p95
  const line = `| ${name} | ${answered} | ${await pagesOf(database, question(rounds))} | ${median.toFixed(0)} ms | ${p95.toFixed(0)} ms | ${holds ? 'yes' : 'no'} |`
  log(line)
  return line
}

const home = keptHome ?? mkdtempSync(join(tmpdir(), 'millrace-bench-'))
const databaseUrl = options.database === undefined ? null : passingSecret('DATABASE_URL', options.database)
const database = await openDatabase({ databaseUrl, home })
try {
  const rows = await prepare(database)
  const lines: string[] = []
  for (const [name, question] of Object.entries(questions).filter(([name]) => name.includes(only)))
    lines.push(await measure(database, name, question))
  process.stdout.write(
    `${[
      `${rows} keyword rows, ${months.length} months, 50 domains, 2 countries; ${rounds} rounds; goal ${goalMs.median} ms median, ${goalMs.p95} ms 95th percentile`,
      '',
      '| question | rows | pages | median | 95th | holds |',
      '| --- | --- | --- | --- | --- | --- |',
      ...lines,
    ].join('\n')}\n`,
  )
} finally {
  await database.close()
  if (keptHome === undefined) rmSync(home, { recursive: true, force: true })
}
