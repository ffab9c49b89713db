// A parameter that is part of the key is changed while an answer is on its way, and changed back: each answer goes where it was asked for, and nothing is bought twice.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, expect, test } from 'vitest'
import { pipelinesOfRepository, startCommand } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const { folder, db, sandbox, environment } = sandboxWorld({
  copied: [],
  lists: { domains: ['example.com'] },
  sandbox: { keywordsPerDomain: 5_000 },
  settings: { WEB_ANALYTICS_REQUESTS_PER_SECOND: '300', WEB_ANALYTICS_PRICES: 'keywords=1/request' },
})

beforeAll(() => {
  for (const name of ['traffic_and_engagement', 'keywords']) write(name, shipped(name))
})

const shipped = (name: string): string =>
  readFileSync(join(pipelinesOfRepository, `${name}.yaml`), 'utf8')
    .replace(/country: \[.*\]/, 'country: [us]')
    .replace('page_size: 1000, concurrency: 4', 'page_size: 500, concurrency: 1')
const write = (name: string, text: string): void => writeFileSync(join(folder, 'pipelines', `${name}.yaml`), text)

const backfill = (name: string): string[] => ['backfill', name, '--from', '2026-08', '--to', '2026-08', '--yes', '--json']
const one = async <T extends object>(statement: string): Promise<T> => (await db.query<T>(statement))[0] ?? expect.fail(statement)

/** Stopped for good once the statement finds something. */
const killedOnce = async (name: string, found: string): Promise<void> => {
  const killed = startCommand(backfill(name), environment(), folder)
  while ((await one<{ n: number }>(found)).n === 0 && killed.child.exitCode === null) await sleep(20)
  killed.child.kill('SIGKILL')
  expect((await killed.result).signal).toBe('SIGKILL')
}

test.each([
  {
    name: 'traffic_and_engagement',
    column: 'include_subdomains',
    measure: 'all_traffic_visits',
    words: ['include_subdomains: true', 'include_subdomains: false'],
    slow: { reportDurationMs: 1_000_000 },
    begun: `select count(*)::int as n from etl.reports where state = 'submitted'`,
    bought: `select count(*)::int as n from etl.reports`,
  },
  {
    name: 'keywords',
    column: 'traffic_source',
    measure: 'clicks',
    words: ['traffic_source: All', 'traffic_source: Paid'],
    slow: { latencyMs: 400 },
    begun: `select count(*)::int as n from etl.jobs where begun_landing is not null`,
    // 10 pages of one, 2 of the other.
    bought: `select count(distinct (parameters ->> 'traffic_source', part))::int as n from etl.requests where status = 200 and endpoint like '%keywords'`,
  },
])(
  '$name: an answer is loaded by the parameters it was asked with',
  async ({ name, column, measure, words, slow, begun, bought }) => {
    const [before = '', after = ''] = words
    await succeeded(runWarm(['migrate'], environment(), folder))
    sandbox.configure(slow)
    await killedOnce(name, begun)
    sandbox.configure({ reportDurationMs: 0, latencyMs: 0 })
    write(name, shipped(name).replace(before, after))
    const other = await runWarm(backfill(name), environment(), folder)
    expect(other.stdout, other.stderr).toContain('"loaded":1')
    // A report that was bought waits for its parameters, and that is said once; of a walk nothing more is bought. Neither is what this backfill is for.
    expect([other.code, other.stdout.includes('NO_DEFINITION')]).toEqual([0, name !== 'keywords'])
    await succeeded(runWarm(backfill(name), environment(), folder))
    const status = await succeeded(runWarm(['status', name], environment(), folder))
    if (name !== 'keywords') expect(status.stdout).toMatch(/waiting #.*\[NO_DEFINITION\]\n.*Put that definition back/)
    write(name, shipped(name))
    const back = await runWarm(backfill(name), environment(), folder)
    expect([back.code, back.stdout], back.stderr).toEqual([0, expect.stringContaining('"loaded":1')])

    const rows = await db.query<{ asked: string; holds: string; rows: number; sum: number }>(
      `select p.parameters ->> '${column}' as asked, t.${column}::text as holds, count(*)::int as rows, sum(t.${measure})::float8 as sum
     from data.${name}_v1 t join etl.units u on u.unit_id = t._unit_id join etl.pipelines p using (pipeline_id) group by 1, 2 order by 1`,
    )
    expect(rows.map(({ asked, holds }) => asked === holds)).toEqual([true, true])
    expect(rows[0]?.sum).not.toBe(rows[1]?.sum)
    const paid = await one<{ n: number }>(bought)
    expect(paid.n).toBe(name === 'keywords' ? Number(rows[0]?.rows) / 500 + Math.ceil(Number(rows[1]?.rows) / 500) : 2)
  },
)

test('what was bought for a pipeline whose YAML file is gone waits for the file, and status says so', async () => {
  const name = 'traffic_and_engagement'
  const july = ['backfill', name, '--from', '2026-07', '--to', '2026-07', '--yes', '--json']
  const bought = `select count(*)::int as n from etl.reports where report_id is not null`
  const { n: before } = await one<{ n: number }>(bought)
  sandbox.configure({ reportDurationMs: 1_000_000 })
  const stopped = startCommand(july, environment(), folder)
  while ((await one<{ n: number }>(bought)).n === before && stopped.child.exitCode === null) await sleep(20)
  stopped.child.kill('SIGTERM')
  await stopped.result
  rmSync(join(folder, 'pipelines', `${name}.yaml`))
  const status = await succeeded(runWarm(['status'], environment(), folder))
  expect(status.stdout).toMatch(/waiting #.*\[NO_DEFINITION\]\n.*No definition of traffic_and_engagement is here/)
  write(name, shipped(name))
  expect((await succeeded(runWarm(['status'], environment(), folder))).stdout).not.toContain('NO_DEFINITION')
  sandbox.configure({ reportDurationMs: 0 })
  const back = await runWarm(july, environment(), folder)
  expect([back.code, back.stdout], back.stderr).toEqual([0, expect.stringContaining('"loaded":1')])
  expect((await one<{ n: number }>(bought)).n).toBe(before + 1)
})

test('a walk that was stopped under a former version is read to its end for the next one, no page of it bought twice', async () => {
  const june = ['backfill', 'keywords', '--from', '2026-06', '--to', '2026-06', '--yes', '--json']
  const paid = `select count(*)::int as n from etl.requests where status = 200 and endpoint like '%keywords'`
  const { n: before } = await one<{ n: number }>(paid)
  sandbox.configure({ latencyMs: 400 })
  const stopped = startCommand(june, environment(), folder)
  while ((await one<{ n: number }>(paid)).n === before && stopped.child.exitCode === null) await sleep(20)
  stopped.child.kill('SIGTERM')
  await stopped.result
  // Stopped in good order the walk is nobody's again, and only a plan that has pages.
  expect(
    await one(
      `select count(*)::int as n from etl.jobs where state = 'open' and ask_number is null and begun_landing is not null`,
    ),
  ).toEqual({ n: 1 })
  sandbox.configure({ latencyMs: 0 })
  write('keywords', shipped('keywords').replace('version: 1', 'version: 2'))
  for (const words of [['new', 'migration', 'keywords'], ['migrate']]) await succeeded(runWarm(words, environment(), folder))
  const next = await runWarm(june, environment(), folder)
  expect(next.stdout, next.stderr).toContain(
    '"unit":"keywords/v2/2026-06/country=us;domain=example.com","units":1,"state":"loaded"',
  )
  const { n: rows } = await one<{ n: number }>('select count(*)::int as n from data.keywords_v2')
  expect((await one<{ n: number }>(paid)).n - before).toBe(Math.ceil(rows / 500))
  await succeeded(runWarm(june, environment(), folder))
})
