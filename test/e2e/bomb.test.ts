// Ten gigabytes in ten megabytes: the unit ends with a clear error, memory stays flat, the warehouse is as it was.
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { pipelinesOfRepository, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { type StrictService, startStrictService } from '../support/strict-service.ts'

const key = 'bomb-key-0123456789'
const megabyte = 1_000_000

let folder: string
let db: TestDatabase
let service: StrictService | null = null

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-bomb-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\n')
  for (const name of ['keywords', 'traffic_and_engagement']) {
    const file = join(folder, 'pipelines', `${name}.yaml`)
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replace('attempts: 5', 'attempts: 1').replace('poll_every: 5s', 'poll_every: 1s'),
    )
  }
  db = await createTestDatabase()
})
afterEach(async () => {
  await service?.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
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

/** 0 once the process has ended. */
const highWaterMb = (pid: number | undefined): number => {
  const file = `/proc/${pid}/status`
  if (!existsSync(file)) return 0
  const [, kb] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(file, 'utf8')) ?? []
  return Number(kb ?? 0) / 1000
}

const peakOf = async (
  args: readonly string[],
): Promise<{ peakMb: number; stderr: string; summary: ReturnType<typeof summaryOf> }> => {
  const running = startCommand(
    [...args, '--json'],
    {
      WEB_ANALYTICS_BASE_URL: service?.url ?? '',
      WEB_ANALYTICS_API_KEY: key,
      DATABASE_URL: db.url,
      MILLRACE_HOME: join(folder, 'home'),
    },
    folder,
  )
  let peakMb = 0
  const look = setInterval(() => {
    peakMb = Math.max(peakMb, highWaterMb(running.child.pid))
  }, 50)
  const result = await running.result
  clearInterval(look)
  return { peakMb, stderr: result.stderr, summary: summaryOf(result) }
}

const range = ['--from', '2026-09', '--to', '2026-09', '--only', 'country=us']
/** Far above the 160 MB of ordinary work, far below what a page of ten gigabytes would take. */
const bearableMb = 600

test('a keyword page that inflates without end', async () => {
  service = await startStrictService({
    key,
    keywords: () => [],
    report: () => '',
    intercept: (_request, response) => {
      sendBomb(response, 'application/json', ' ')
      return true
    },
  })
  const { peakMb, summary } = await peakOf(['backfill', 'keywords', ...range])
  expect(summary.units.loaded).toBe(0)
  const { rows } = await db.database.pool.query('select state, error_code, error_message from etl.unit_list')
  expect(rows[0]).toMatchObject({ error_code: 'TOO_LARGE' })
  expect(peakMb).toBeLessThan(bearableMb)
  process.stderr.write(`10 GB in 10 MB as a page: ${Math.round(peakMb)} MB at most\n`)
})

test('a report that inflates beyond its limit', async () => {
  const file = join(folder, 'pipelines', 'traffic_and_engagement.yaml')
  writeFileSync(file, readFileSync(file, 'utf8').replace('limits: {', 'limits: { max_body: 300MB,'))
  service = await startStrictService({
    key,
    keywords: () => [],
    report: () => '',
    intercept: (request, response) => {
      if (!(request.url ?? '').startsWith('/files/')) return false
      sendBomb(response, 'text/csv', 'a.com,US,2026-09-01,1\n')
      return true
    },
  })
  const { peakMb, summary } = await peakOf(['backfill', 'traffic_and_engagement', ...range])
  expect(summary.units.loaded).toBe(0)
  const { rows } = await db.database.pool.query('select error_code, error_message from etl.unit_list')
  expect(['TOO_LARGE', 'BAD_RESPONSE', 'TOO_MANY_REJECTS']).toContain(rows[0]?.error_code)
  expect(await db.database.pool.query('select 1 from data.traffic_and_engagement_v1')).toMatchObject({ rowCount: 0 })
  expect(peakMb).toBeLessThan(bearableMb)
  process.stderr.write(`10 GB in 10 MB as a report: ${rows[0]?.error_code}, ${Math.round(peakMb)} MB at most\n`)
})
