import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../../src/sandbox/sandbox-server.ts'

let sandbox: Sandbox

beforeEach(async () => {
  sandbox = await startSandbox({ now: '2026-03-20', requestsPerSecond: null, reportDurationMs: 0 })
})
afterEach(() => sandbox.close())

const domains = ['a.example', 'b.example', 'c.example']
const months = ['2025-11', '2025-12', '2026-01', '2026-02']

const send = async (path: string, body: unknown, base = sandbox.url): Promise<{ status: number; body: unknown }> => {
  const headers = { 'api-key': sandbox.apiKey, 'content-type': 'application/json' }
  const answer = await fetch(base + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: answer.status, body: await answer.json() }
}

const report = {
  delivery_information: { response_format: 'csv' },
  report_query: {
    tables: [
      {
        vtable: 'traffic_and_engagement',
        granularity: 'monthly',
        filters: { domains, countries: ['US', 'WW'] },
        metrics: ['all_traffic_visits', 'desktop_visits'],
        start_date: months[0],
        end_date: months.at(-1),
      },
    ],
  },
}
const buy = (base?: string) => send('/batch/v4/request-report', report, base)
const price = () => send('/batch/v4/request-validate', report)

describe('a report over many months, domains and countries', () => {
  test('costs its cells and holds for each month what the month alone would hold', async () => {
    expect((await price()).body).toMatchObject({ is_valid: true, estimated_credits: 3 * 2 * 4 * 2 })
    await buy()
    const [sold] = sandbox.books().submissions
    expect(sold?.asked).toMatchObject([{ domains, places: ['US', 'WW'], dates: months.map((month) => `${month}-01`) }])
    const rows = sandbox.truth.sold(sold?.id ?? '') ?? []
    expect(new Set(rows.map(({ date }) => date)).size).toBe(4)
    const [table] = sold?.asked ?? []
    if (table === undefined) throw new Error('nothing was sold')
    const alone = table.dates.flatMap((date) => sandbox.truth.report({ ...table, dates: [date] }))
    expect(rows).toEqual(alone)
  })

  test('keeps its values when a domain is revised afterwards; the domain alone changes', async () => {
    await buy()
    const [sold] = sandbox.books().submissions
    const before = sandbox.truth.sold(sold?.id ?? '')
    const [table] = sold?.asked ?? []
    if (table === undefined) throw new Error('nothing was sold')
    for (let times = 0; times < 3; times += 1) sandbox.restate('2026-01', 'a.example')
    expect(sandbox.truth.sold(sold?.id ?? '')).toEqual(before)
    const changed = sandbox.truth
      .report(table)
      .filter((row) => !before?.some((old) => JSON.stringify(old) === JSON.stringify(row)))
    expect(new Set(changed.map(({ domain, date }) => `${domain} ${date}`))).toEqual(new Set(['a.example 2026-01-01']))
  })
})

describe('a limit that is switched on', () => {
  test.each<[SandboxOptions, string]>([
    [{ mostValues: 2 }, 'domains: 3 are asked for, at most 2'],
    [{ mostMonths: 3 }, 'months: 4 are asked for, at most 3'],
    [{ mostCells: 23 }, '24 cells, at most 23'],
    [{ refusedDomains: ['b.example'] }, "'b.example' is not known"],
    [{ refusedMonths: ['2025-12'] }, 'no data for 2025-12'],
  ])('%j is refused by name, priced as not valid, and sells nothing', async (options, words) => {
    sandbox.configure(options)
    const answer = await buy()
    expect(answer).toMatchObject({ status: 400, body: { errors: [expect.stringContaining(words)] } })
    expect((await price()).body).toMatchObject({ is_valid: false, errors: [expect.stringContaining(words)] })
    expect(sandbox.books().submissions).toEqual([])
  })

  test('that is just reached refuses nothing', async () => {
    sandbox.configure({ mostValues: 3, mostMonths: 4, mostCells: 24, refusedDomains: ['d.example'], refusedMonths: ['2025-10'] })
    expect((await buy()).status).toBe(200)
  })
})

test('clients with base addresses of their own are told apart in the books', async () => {
  await buy(`${sandbox.url}/as/first`)
  await buy()
  const { requests, submissions } = sandbox.books()
  expect(submissions.map(({ caller }) => caller)).toEqual(['first', null])
  expect(requests.map(({ caller, path }) => [caller, path])).toEqual([
    ['first', '/batch/v4/request-report'],
    [null, '/batch/v4/request-report'],
  ])
})
