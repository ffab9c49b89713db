// Copies of a warehouse that nothing has run in yet: whose they are is told by what lies beside the landings.
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import { boughtPath, intentPath, runPath } from '../../src/extract/landing-files.ts'
import { declareIdentity, identityFindings, settledHere, settleIdentity } from '../../src/run/identity.ts'
import { adoptUnplanned } from '../../src/run/landed-walks.ts'
import { insertAnswer } from '../../src/ledger/answers.ts'
import { keyParameters } from '../../src/ledger/pipelines.ts'
import { type CopiedDatabase, copyDatabase } from '../support/copied-database.ts'
import { shippedDefinition } from '../support/definitions.ts'
import { newJob, newPipeline, newProcess, newRun, nextAskNumber, takeOne } from '../support/ledger.ts'
import { type MemoryLanding, memoryLanding } from '../support/memory-landing.ts'

let landing: MemoryLanding
let copies: CopiedDatabase[]
let id: string
let copy: CopiedDatabase

const opened = async <T>({ url }: CopiedDatabase, work: (database: Database) => Promise<T>): Promise<T> => {
  const database = await openDatabase({ databaseUrl: secret('copy', url), home: '/nowhere' })
  return work(database).finally(() => database.close())
}

beforeEach(async () => {
  landing = memoryLanding()
  const original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  copies = [original]
  // As `millrace migrate` does.
  const found = await opened(original, (database) => settledHere({ database }))
  id = found.id
  expect(found.home).toBe(found.here)
  copy = await original.copy()
  copies.push(copy)
})
afterEach(async () => {
  for (const one of copies) await one.drop()
})

test('a backup from before the first run is known by what was done under its name since', async () => {
  await landing.notes.write(runPath({ id, epoch: 1 }, 1), '{}')
  const { identity, warning } = await opened(copy, (database) => settleIdentity({ database, landing }))
  expect(identity).toMatchObject({ id, standing: 'copy' })
  expect(warning).toContain('millrace migrate --as restored')
})

test('landings older than the epochs in which was worked: none of those is taken again, by runs or by receipts they are known', async () => {
  const [original = copy] = copies
  // What was noted of the epochs themselves is gone with the older folder.
  await landing.notes.write(runPath({ id, epoch: 3 }, 7), '{}')
  const declared = await opened(original, (database) => declareIdentity({ database, landing }, 'restored'))
  expect(declared.identity).toMatchObject({ id, standing: 'own', epoch: 4 })
  expect((await opened(original, (database) => settleIdentity({ database, landing }))).warning).toBeNull()
  const { epoch } = declared.identity
  await landing.notes.write(intentPath({ id, epoch: epoch + 4 }, '8'), JSON.stringify(receiptOf(null, '8')))
  const again = await opened(original, (database) => declareIdentity({ database, landing }, 'restored'))
  expect(again.identity.epoch).toBe(epoch + 5)
})

test('a template under whose name nobody has worked makes warehouses of their own', async () => {
  const { identity, warning } = await opened(copy, (database) => settleIdentity({ database, landing }))
  expect([warning, identity.standing, identity.home === identity.here]).toEqual([null, 'own', true])
  expect(identity.id).not.toBe(id)
  // From now on it is where it is.
  expect((await opened(copy, (database) => settleIdentity({ database, landing }))).identity.id).toBe(identity.id)
})

test('one that nobody has worked with and that a person declares moved replaces the original, which buys nothing from then on', async () => {
  const [original = copy] = copies
  const { identity } = await opened(copy, (database) => declareIdentity({ database, landing }, 'moved'))
  expect(identity).toMatchObject({ id, standing: 'own', epoch: 2 })
  const left = await opened(original, (database) => settleIdentity({ database, landing }))
  expect(left.identity.standing).toBe('replaced')
  expect(left.warning).toContain('buys and deletes nothing')
  expect((await opened(copy, (database) => settleIdentity({ database, landing }))).identity).toMatchObject({
    id,
    standing: 'own',
  })
})

const receiptOf = (reportId: string | null, askNumber: string) => ({
  ...{ version: 1, warehouse: id, epoch: 1, ask_number: askNumber, job_id: '1', pipeline: 'visits', pipeline_version: 1 },
  ...{ source: 'test.report', account: 'default', window_every: 'month', dimensions: ['shop'], definition: {} },
  question: { parameters: {}, asks: 'x', metrics: [] },
  window: { from: '2026-01-01', to: '2026-02-01' },
  slice: { shop: ['a'] },
  ...{ endpoint: '/x', request: {}, request_hash: 'x', estimated_quota: null, report_id: reportId },
  ...{ asked_at: '2026-02-01T00:00:00Z', noted_at: '2026-02-01T00:00:00Z' },
})

test('a receipt that cannot be taken in is named and passed over: others are taken up, and no command ends at it', async () => {
  const note = (askNumber: string, reportId: string, text = JSON.stringify(receiptOf(reportId, askNumber))) =>
    landing.notes.write(boughtPath({ id, epoch: 1 }, askNumber, 'default', reportId), text)
  await note('7', 'a\u0000b')
  await note('8', 'x'.repeat(16_000))
  await note('9', 'cut', '{"version":1')
  await note('10', 'good')
  const settle = () => opened(copy, (database) => settleIdentity({ database, landing }))
  const first = await settle()
  expect(first.adopted).toMatchObject({ purchases: 1, left: 0 })
  expect(first.adopted.damaged).toHaveLength(3)
  for (const message of first.adopted.damaged) expect(message).toMatch(/receipts\/.*\.json beside the landings/)
  // Again at the next start, and by check, as long as they lie there.
  expect((await settle()).adopted.damaged).toHaveLength(3)
  expect((await opened(copy, (database) => identityFindings({ database, landing }, true))).damaged).toHaveLength(3)
})

test.each([
  ['of which it is known by its intent alone', null, 'open', 'held'],
  ['of which it is known by its intent alone, while the other failed and can be fetched', null, 'failed', 'held'],
  ['of which both are known by their ids', 'second', 'open', 'open'],
])('units count on the newest purchase of several, %s, and the other is finished', async (_, reportId, before, state) => {
  const at = { id, epoch: 1 }
  const takenUp = async (path: string, of: string | null, askNumber: string) => {
    await landing.notes.write(path, JSON.stringify(receiptOf(of, askNumber)))
    return (await opened(copy, (database) => settleIdentity({ database, landing }))).adopted.purchases
  }
  expect(await takenUp(boughtPath(at, '7', 'default', 'first'), 'first', '7')).toBe(1)
  await copy.pool.query('update etl.jobs set state = $1', [before])
  const newer = reportId === null ? intentPath(at, '8') : boughtPath(at, '8', 'default', reportId)
  expect(await takenUp(newer, reportId, '8')).toBe(1)
  const { rows } = await copy.pool.query(
    `select j.ask_number, j.state, (select count(*) from etl.units u where u.job_id = j.job_id)::int as units from etl.jobs j order by 1`,
  )
  expect(rows).toEqual([
    { ask_number: '7', state: before, units: 0 },
    { ask_number: '8', state, units: 1 },
  ])
})

test('of a pipeline that is planned with other parameters for the first time no landing is opened that the ledger has: there may be millions', async () => {
  const definition = await shippedDefinition('keywords')
  const opening = await opened(copy, async ({ kysely }) => {
    const before = await newPipeline(kysely, { pipeline: 'keywords' })
    const own = await newProcess(kysely)
    const runId = await newRun(kysely, own.processId)
    const askNumber = await nextAskNumber(kysely)
    await newJob(kysely, before, { runs: [runId], set: { ask_number: askNumber } })
    const locator = `keywords_v1/2026-01-01/a/${id.slice(0, 8)}.1-${askNumber}-1-a`
    await insertAnswer(kysely, await takeOne(kysely, own, runId, before), {
      ...{ locator, sha256: 'a'.repeat(64), bytes: 1, asks: 'x', metrics: [], dataPoints: null },
      fingerprint: { lastUpdated: null, count: null },
    })
    const tried: string[] = []
    const beside = {
      ...landing,
      below: async function* () {
        yield locator
      },
      open: (one: string) => {
        tried.push(one)
        return landing.open(one)
      },
    }
    expect(await adoptUnplanned({ db: kysely, landing: beside }, id, [definition])).toMatchObject({ answers: 0 })
    return tried
  })
  expect(opening).toEqual([])
})

test('a landing that cannot be taken in is named and passed over: others are taken up, and no run ends at it', async () => {
  const definition = await shippedDefinition('keywords')
  const { pipeline, version } = definition
  const land = (askNumber: string, domain: string, manifest: (whole: object) => string = JSON.stringify): void => {
    const whole = {
      ...{ version: 2, warehouse: id, epoch: 1, ask_number: askNumber, pipeline, pipeline_version: version, asked_for: domain },
      ...{ window: { from: '2026-01-01', to: '2026-02-01' }, slice: { domain, country: 'us' } },
      question: { parameters: keyParameters(definition), asks: 'x', metrics: [] },
      ...{ parts: [], sha256: 'a'.repeat(64), bytes: 1, landed_at: '2026-02-10T00:00:00Z' },
      completeness: { fingerprint: { lastUpdated: null, count: 1 }, expectedRows: 1, dataPoints: null },
    }
    const locator = `keywords_v1/2026-01-01/${domain}/${id.slice(0, 8)}.1-${askNumber}-1-a`
    landing.there.set(locator, { data: Buffer.alloc(0), manifest: manifest(whole) })
  }
  land('7', 'moment.com', (whole) => JSON.stringify({ ...whole, landed_at: 'soon' }))
  land('8', 'cut.com', (whole) => JSON.stringify(whole).slice(0, 50))
  land('9', 'good.com')
  const found = await opened(copy, ({ kysely }) => adoptUnplanned({ db: kysely, landing }, id, [definition]))
  expect(found.answers).toBe(1)
  expect(found.damaged).toEqual([expect.stringContaining('moment.com'), expect.stringContaining('cut.com')])
  // Its runs have planned it by now, and the ledger is found to be older than a landing.
  land('10', 'later.com', (whole) => JSON.stringify({ ...whole, landed_at: 'soon' }))
  await landing.notes.write(runPath({ id, epoch: 1 }, 1), '{}')
  const { adopted } = await opened(copy, (database) => settleIdentity({ database, landing }))
  expect(adopted).toMatchObject({ answers: 0, damaged: [expect.stringContaining('later.com')] })
})
