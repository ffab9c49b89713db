// What the queue and the ledger cost a unit, the work itself left out: register, enqueue, fetch, claim, settle. Run: node bench/queue.ts [UNITS] [ROUNDS]
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLog } from '../src/core/log.ts'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { markUnchanged } from '../src/ledger/loads.ts'
import { registerUnits } from '../src/ledger/register.ts'
import { finishRun, startRun } from '../src/ledger/runs.ts'
import { claimUnit } from '../src/ledger/units.ts'
import { migrate } from '../src/db/migrate.ts'
import { type Queue, startQueue } from '../src/pipeline/queue.ts'
import { median } from './results.ts'

const units = Number(process.argv[2] ?? 1_000)
const rounds = Number(process.argv[3] ?? 5)
const slots = 4

const unitOf = (round: number, index: number) => {
  const slice = { domain: `d${index}.example` }
  const window = { from: '2026-01-01', to: '2026-02-01' }
  return { key: `bench${round}/v1/2026-01/domain=${slice.domain}`, pipeline: `bench${round}`, version: 1, window, slice }
}

const work = async ({ kysely }: Database, queue: Queue): Promise<void> => {
  for (;;) {
    const jobs = await queue.fetch(1)
    if (jobs.length === 0) return
    for (const job of jobs) {
      const claim = await claimUnit(kysely, job.unitId, {
        owner: 'bench',
        leaseMs: 30_000,
        runId: job.runId,
        holds: queue.holds(job),
      })
      if (claim === null) throw new Error('a unit was not to be had')
      await kysely.transaction().execute(async (trx) => {
        await markUnchanged(trx, claim, { runId: job.runId, fingerprint: { lastUpdated: null, count: null } })
        await queue.finish(trx, job)
      })
    }
  }
}

const round = async (database: Database, queue: Queue, number: number): Promise<number> => {
  const { kysely } = database
  const runId = await startRun(kysely, { command: 'bench', arguments: {} })
  const started = performance.now()
  await kysely.transaction().execute(async (trx) => {
    const wanted = Array.from({ length: units }, (_, index) => ({
      unit: unitOf(number, index),
      newEdition: false,
      forced: false,
    }))
    const registered = await registerUnits(trx, runId, wanted)
    await queue.enqueue(
      trx,
      registered.map(({ unitId }, index) => ({ unitId, runId, priority: units - index })),
    )
  })
  await Promise.all(Array.from({ length: slots }, () => work(database, queue)))
  const perUnit = (performance.now() - started) / units
  await finishRun(kysely, runId, 'done', null)
  return perUnit
}

const home = mkdtempSync(join(tmpdir(), 'millrace-bench-'))
const database = await openDatabase({ databaseUrl: null, home })
try {
  await migrate(database, { folders: [] })
  const queue = await startQueue(database, silentLog)
  const found: number[] = []
  for (let number = 1; number <= rounds; number += 1) found.push(await round(database, queue, number))
  await queue.stop()
  process.stdout.write(
    `${units} units, ${slots} at once, embedded database: ${median(found).toFixed(2)} ms a unit (${found.map((ms) => ms.toFixed(2)).join(', ')})\n`,
  )
} finally {
  await database.close()
  rmSync(home, { recursive: true, force: true })
}
