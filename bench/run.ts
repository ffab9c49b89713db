// `npm run bench [-- --quick | --only reports,pages | --warehouse ROWS | --units N]`: every goal measured against the floor.
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { useCompiledProgram } from '../test/support/program.ts'
import { goals } from './goals.ts'
import { runMeasured } from './measured-command.ts'
import { openProject } from './project.ts'
import { type Results, resultTable, verdictOf, withRowsOf } from './results.ts'
import { fullSizes, quickSizes, type Sizes } from './sizes.ts'
import { steps } from './steps.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    rounds: { type: 'string' },
    rows: { type: 'string' },
    warehouse: { type: 'string' },
    units: { type: 'string' },
    'no-write': { type: 'boolean', default: false },
  },
})

const base = values.quick ? quickSizes : fullSizes
const sizes: Sizes = {
  ...base,
  rounds: Number(values.rounds ?? base.rounds),
  rows: Number(values.rows ?? base.rows),
  warehouseRows: Number(values.warehouse ?? base.warehouseRows),
  nightUnits: Number(values.units ?? base.nightUnits),
}
const wanted = values.only?.split(',') ?? null

/** A run that is cut short leaves what it measured. */
const isWritten = !values['no-write'] && !values.quick
const page = join(import.meta.dirname, 'RESULTS.md')

const results: Results = new Map()
const started = performance.now()
const [loadBefore = 0] = loadavg()
const day = new Date().toISOString().slice(0, 10)
const measuredAgain = `Measured again alone on ${day}, ${sizes.rounds} rounds, load average ${loadBefore.toFixed(1)} before`
const textOf = (server: string): string => {
  const [cpu] = cpus()
  return `# Results of \`npm run bench\`

${day}, ${cpus().length} x ${cpu?.model.trim() ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform}, Node ${process.versions.node}, PostgreSQL ${server} (embedded), ${Math.round((performance.now() - started) / 1000)} s.
Other work on the machine: load average ${loadBefore.toFixed(1)} before the run.
Medians of ${sizes.rounds} interleaved round${sizes.rounds === 1 ? '' : 's'}; the report has ${sizes.rows} rows x 9 columns. Millrace's times hold the start of the process, the download,
the landing on disk, the keys, lineage, history and the ledger; the floor's are a warm process that copies the same bytes from the same service
and runs the best single statement. What stands behind each figure: docs/performance.md.

${resultTable(results)}`
}

const project = await openProject(sizes.rows)
const removeProgram = await useCompiledProgram()
const client = await project.database.pool.connect()
try {
  await runMeasured(project, ['migrate'], {})
  const { rows: server } = await project.database.pool.query<{ v: string }>(`select current_setting('server_version') as v`)
  for (const step of steps) {
    if (wanted !== null && !wanted.includes(step.name)) continue
    process.stderr.write(`${step.name}\n`)
    await step.measure(project, client, sizes, results)
    if (isWritten && wanted === null) writeFileSync(page, textOf(server[0]?.v ?? 'unknown'))
  }
  process.stdout.write(textOf(server[0]?.v ?? 'unknown'))
  if (isWritten && wanted !== null) writeFileSync(page, withRowsOf(readFileSync(page, 'utf8'), results, measuredAgain))
  process.exitCode = goals.some((goal) => verdictOf(goal, results.get(goal.id)) === 'missed') ? 1 : 0
} finally {
  client.release()
  await project.close()
  removeProgram()
}
