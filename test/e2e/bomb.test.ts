// Ten gigabytes in ten megabytes: the unit ends with a clear error, memory stays flat, the warehouse is as it was.
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { beforeEach, expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { peakOfMemory } from '../support/peak-memory.ts'
import { type StrictService, startStrictService } from '../support/strict-service.ts'
import { testWorld } from '../support/test-world.ts'

const key = 'bomb-key-0123456789'
const megabyte = 1_000_000

const { db, edit, serve, start } = testWorld<StrictService>({ each: true, lists: { domains: ['a.com'] } })

beforeEach(() => {
  edit('keywords', ['attempts: 5', 'attempts: 1'])
  edit('traffic_and_engagement', ['attempts: 5', 'attempts: 1'], ['poll_every: 5s', 'poll_every: 1s'])
})

/** A gzip member of a hundred megabytes, sent a hundred times: gzip files may be joined. */
const sendBomb = (response: ServerResponse, type: string, unit: string): void => {
  const member = gzipSync(Buffer.from(unit.repeat(Math.ceil((100 * megabyte) / unit.length))), { level: 9 })
  response.writeHead(200, { 'content-type': type, 'content-encoding': 'gzip' })
  let left = 100
  const more = (): void => {
    while (left > 0) {
      left -= 1
      if (!response.write(member)) return void response.once('drain', more)
    }
    response.end()
  }
  response.on('error', () => undefined)
  more()
}

const peakOf = async (
  args: readonly string[],
): Promise<{ peakMb: number; stderr: string; summary: ReturnType<typeof summaryOf> }> => {
  const { peakMb, ended } = await peakOfMemory(start([...args, '--json'], { WEB_ANALYTICS_API_KEY: key }))
  return { peakMb, stderr: ended.stderr, summary: summaryOf(ended) }
}

const range = ['--from', '2026-09', '--to', '2026-09', '--only', 'country=us']
/** Far above the 160 MB of ordinary work, far below what a page of ten gigabytes would take. */
const bearableMb = 600

test('a keyword page that inflates without end', async () => {
  await serve(
    startStrictService({
      key,
      keywords: () => [],
      report: () => '',
      intercept: (_request, response) => {
        sendBomb(response, 'application/json', ' ')
        return true
      },
    }),
  )
  const { peakMb, summary } = await peakOf(['backfill', 'keywords', ...range])
  expect(summary.units.loaded).toBe(0)
  const rows = await db.query('select state, error_code, error_message from etl.unit_list')
  expect(rows[0]).toMatchObject({ error_code: 'TOO_LARGE' })
  expect(peakMb).toBeLessThan(bearableMb)
  process.stderr.write(`10 GB in 10 MB as a page: ${Math.round(peakMb)} MB at most\n`)
})

test('a report that inflates beyond its limit', async () => {
  edit('traffic_and_engagement', ['limits: {', 'limits: { max_body: 300MB,'])
  await serve(
    startStrictService({
      key,
      keywords: () => [],
      report: () => '',
      intercept: (request, response) => {
        if (!(request.url ?? '').startsWith('/files/')) return false
        sendBomb(response, 'text/csv', 'a.com,US,2026-09-01,1\n')
        return true
      },
    }),
  )
  const { peakMb, summary } = await peakOf(['backfill', 'traffic_and_engagement', ...range])
  expect(summary.units.loaded).toBe(0)
  const rows = await db.query('select error_code, error_message from etl.unit_list')
  expect(['TOO_LARGE', 'BAD_RESPONSE', 'TOO_MANY_REJECTS']).toContain(rows[0]?.error_code)
  expect(await db.database.pool.query('select 1 from data.traffic_and_engagement_v1')).toMatchObject({ rowCount: 0 })
  expect(peakMb).toBeLessThan(bearableMb)
  process.stderr.write(`10 GB in 10 MB as a report: ${rows[0]?.error_code}, ${Math.round(peakMb)} MB at most\n`)
})
