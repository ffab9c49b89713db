// `npm run bench [-- --quick | --only reports,pages | --warehouse ROWS | --units N]`: every goal measured against the floor.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { useCompiledProgram } from '../test/support/program.ts'
import { goals } from './goals.ts'
import { runMeasured } from './measured-command.ts'
import { openProject } from './project.ts'
import { type Results, resultTableWith, verdictOf } from './results.ts'
import { fullSizes, quickSizes, type Sizes } from './sizes.ts'
import { type Step, steps } from './steps.ts'

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
const day = new Date().toISOString().slice(0, 10)
/** Goals that were not measured now keep the rows they have. */
const earlier = (): string => (wanted !== null && existsSync(page) ? readFileSync(page, 'utf8') : '')

const textOf = (server: string): string => {
  const [cpu] = cpus()
  return `# Results of \`npm run bench\`

${cpus().length} x ${cpu?.model.trim() ?? 'unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GB, ${process.platform}, Node ${process.versions.node}, PostgreSQL ${server} (embedded).
Medians of interleaved rounds, as many as the last column says; the report has ${sizes.rows} rows x 9 columns. The last column also has the load average of
the machine before and after the step: other work than the benchmark's counts in it. Millrace's times hold the start of the process, the download, the landing
on disk, the keys, lineage, history and the ledger; the floor's are a warm process that copies the same bytes from the same service and runs the best single
statement. Of 36 windows in one answer it is COPY of the same bytes into
a table with a partition for each month, with the key and the index that ours has, both made in the time. Its processes have MALLOC_ARENA_MAX=1, as in the image
and the systemd units. How each is measured: docs/performance.md.

${resultTableWith(earlier(), results)}`
}

/** Says of what a step measured when that was, and how busy the machine. */
const stamp = ({ goals: measured }: Step, loadBefore: number): void => {
  const [loadAfter = 0] = loadavg()
  const rounds = `${sizes.rounds} round${sizes.rounds === 1 ? '' : 's'}`
  for (const id of measured) {
    const found = results.get(id)
    if (found === undefined) continue
    results.set(id, { ...found, measured: `${day}, ${rounds}, load ${loadBefore.toFixed(1)} to ${loadAfter.toFixed(1)}` })
  }
}

const project = await openProject(sizes.rows)
const removeProgram = await useCompiledProgram()
const client = await project.database.pool.connect()
try {
  await runMeasured(project, ['migrate'], {})
  const { rows: server } = await project.database.pool.query<{ v: string }>(`select current_setting('server_version') as v`)
  const version = server[0]?.v ?? 'unknown'
  for (const step of steps) {
    if (wanted !== null && !wanted.includes(step.name)) continue
    process.stderr.write(`${step.name}\n`)
    const [loadBefore = 0] = loadavg()
    await step.measure(project, client, sizes, results)
    stamp(step, loadBefore)
    if (isWritten) writeFileSync(page, textOf(version))
  }
  process.stdout.write(textOf(version))
  process.exitCode = goals.some((goal) => verdictOf(goal, results.get(goal.id)) === 'missed') ? 1 : 0
} finally {
  client.release()
  await project.close()
  removeProgram()
}
