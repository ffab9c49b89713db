// `millrace record` and `millrace test`: recorded answers beside the definitions, compared offline; a changed cast, key or test is found.
import { linkSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { succeeded, testWorld } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const { folder, db, service, millrace } = testWorld({
  service: () => startVendorSandbox({ requestsPerSecond: null, reportMs: 0 }),
  json: true,
})

/** No service and no database is there. */
const offline = (...args: string[]) => runWarm([...args, '--json'], { MILLRACE_HOME: join(folder, 'home') }, folder)

const fileOf = (name: string): string => join(folder, 'pipelines', name)

const afterChange = async (pipeline: string, from: string | RegExp, to: string): Promise<string> => {
  const text = readFileSync(fileOf(`${pipeline}.yaml`), 'utf8')
  const changed = text.replace(from, to)
  expect(changed).not.toBe(text)
  writeFileSync(fileOf(`${pipeline}.yaml`), changed)
  const run = await offline('test', pipeline)
  writeFileSync(fileOf(`${pipeline}.yaml`), text)
  return `${run.code} ${run.stdout}${run.stderr}`
}

describe('the shipped pipelines', () => {
  test('have recorded answers, which come out as expected in under ten seconds, with no request and no database', async () => {
    const started = Date.now()
    const run = await offline('test')
    expect(run.code, run.stdout + run.stderr).toBe(0)
    expect(Date.now() - started).toBeLessThan(10_000)
    expect(run.events.filter(({ event }) => event === 'tested').map(({ pipeline }) => pipeline)).toEqual([
      'keywords',
      'keywords',
      'shopper_category_performance',
      'traffic_and_engagement',
    ])
    expect(readdirSync(folder)).toEqual(['pipelines'])
  })

  test('are not as expected once a cast, the key, a test or a name is another', async () => {
    expect(await afterChange('keywords', 'clicks: { type: numeric', 'clicks: { type: bigint')).toMatch(/^1 .*columns: expected/s)
    expect(await afterChange('keywords', 'branded_type, keyword, top_url]', 'branded_type, keyword]')).toMatch(
      /^1 .*key: expected/s,
    )
    expect(await afterChange('traffic_and_engagement', 'within: 1%', 'within: 2%')).toMatch(/^1 .*tests: expected/s)
    expect(await afterChange('traffic_and_engagement', 'desktop_visits: {', 'desktop_visits: { from: desk_visits,')).toMatch(
      /^1 .*missing: expected \[\].*desktop_visits/s,
    )
  })
})

test('the file of recorded answers is replaced at once: a kill in the middle leaves the former one whole', async () => {
  const [file, former] = [fileOf('keywords.recorded.json'), join(folder, 'former.json')]
  linkSync(file, former)
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace('"expected"', ' "expected"'))
  const before = readFileSync(former, 'utf8')
  expect(before).not.toBe(text)
  await succeeded(offline('test', 'keywords', '--accept'))
  expect([readFileSync(file, 'utf8'), readFileSync(former, 'utf8')]).toEqual([text, before])
  rmSync(former)
})

describe('an answer', () => {
  test('of a unit is recorded small, without the values it was asked for, and compared at once', async () => {
    // One name ends with the other.
    writeFileSync(fileOf('domains.txt'), 'client.com\nsecret-client.com\n')
    for (const pipeline of ['keywords', 'traffic_and_engagement']) {
      rmSync(fileOf(`${pipeline}.recorded.json`), { force: true })
      await succeeded(millrace('backfill', pipeline, '--from', '2026-08', '--to', '2026-08', '--yes'))
      const rows = await db.query<{ unit: string }>(
        'select min(u.unit_id)::text as unit from etl.units u join etl.pipelines p using (pipeline_id) where p.pipeline = $1',
        [pipeline],
      )
      await succeeded(millrace('record', rows[0]?.unit ?? '', '--records', '3', '--anonymous'))
      const text = readFileSync(fileOf(`${pipeline}.recorded.json`), 'utf8')
      expect(text).not.toMatch(/secret|client/)
      expect(text).not.toContain(service.apiKey)
      expect(JSON.parse(text).answers[0].expected.rows).toHaveLength(3)
    }
    const tested = await succeeded(millrace('test', 'keywords', 'traffic_and_engagement'))
    expect(tested.events.filter(({ event }) => event === 'tested')).toHaveLength(2)
  })
})
