// What the ledger costs a unit as a queue, the work itself left out: plan, claim, settle. Run: node bench/queue.ts [UNITS] [ROUNDS]
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { migrate } from '../src/db/migrate.ts'
import { claimJobs } from '../src/ledger/claim.ts'
import { createCursor } from '../src/ledger/claim-cursor.ts'
import { type OwnProcess, registerProcess } from '../src/ledger/processes.ts'
import { finishRun, startRun } from '../src/ledger/runs.ts'
import { finishJob } from '../src/ledger/claim-fence.ts'
import { definitionFor, plan, range, sourceOf } from '../test/support/planning.ts'
import { asTestDatabase } from '../test/support/postgres.ts'
import { median } from './results.ts'

const units = Number(process.argv[2] ?? 1_000)
const rounds = Number(process.argv[3] ?? 5)
const slots = 4
/** A slot that is free takes one. */
const atOnce = 1

const source = sourceOf({ kind: 'walk' })

const work = async ({ kysely }: Database, own: OwnProcess, runId: number, load: readonly number[]): Promise<number> => {
  const cursor = createCursor()
  for (let settled = 0; ; ) {
    const claims = await claimJobs(kysely, {
      process: own,
      runId,
      claimable: { load, fetch: [], same: [] },
      count: atOnce,
      cursor,
    })
    if (claims.length === 0) return settled
    for (const claim of claims) await kysely.transaction().execute((trx) => finishJob(trx, claim, 'loaded'))
    settled += claims.length
  }
}

const round = async (database: Database, own: OwnProcess): Promise<number> => {
  const { kysely } = database
  const definition = definitionFor(source, { domains: Array.from({ length: units }, (_, index) => `d${index}.example`) })
  const runId = await startRun(kysely, own, { command: 'bench', arguments: {} })
  const started = performance.now()
  await plan(
    asTestDatabase({ url: database.url.reveal(), database, drop: database.close }),
    { definition, source },
    range('2025-01', '2025-01'),
    runId,
  )
  const pipelines = await kysely.selectFrom('etl.pipelines').select('pipeline_id').execute()
  const load = pipelines.map((row) => row.pipeline_id)
  const settled = await Promise.all(Array.from({ length: slots }, () => work(database, own, runId, load)))
  const perUnit = (performance.now() - started) / units
  const total = settled.reduce((sum, one) => sum + one, 0)
  if (total !== units) throw new Error(`${total} of ${units} units were settled`)
  await finishRun(kysely, runId, 'done', null)
  return perUnit
}

const home = mkdtempSync(join(tmpdir(), 'millrace-bench-'))
const database = await openDatabase({ databaseUrl: null, home })
try {
  await migrate(database, { folders: [] })
  const own = await registerProcess(database.kysely)
  const found: number[] = []
  for (let number = 1; number <= rounds; number += 1) found.push(await round(database, own))
  process.stdout.write(
    `${units} units, ${slots} at once, embedded database: ${median(found).toFixed(2)} ms a unit (${found.map((ms) => ms.toFixed(2)).join(', ')})\n`,
  )
} finally {
  await database.close()
  rmSync(home, { recursive: true, force: true })
}
