// `node test/storm/run.ts --jobs 1000 --seed 1`: the whole storm over a PostgreSQL of its own; its figures go into docs/internals/reliability.md.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbedded } from '../../src/db/embedded.ts'
import { useCompiledProgram } from '../support/program.ts'
import { runStorm, wholeStorm } from './fault-storm.ts'
import { createOwnDatabase } from './own-database.ts'
import { writeSection } from './reliability-page.ts'
import { stormSection } from './storm-section.ts'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '4' },
    phases: { type: 'string', default: '3' },
    write: { type: 'boolean', default: false },
  },
})
const home = mkdtempSync(join(tmpdir(), 'millrace-storm-db-'))
const server = await startEmbedded(home)
const removeProgram = await useCompiledProgram()
try {
  const calm = await createOwnDatabase(server.url.reveal(), 'calm')
  const stormy = await createOwnDatabase(server.url.reveal(), 'stormy')
  const figures = await runStorm({
    jobs: Number(values.jobs),
    seed: Number(values.seed),
    rounds: Number(values.rounds),
    phases: wholeStorm.slice(0, Number(values.phases)),
    calm,
    stormy,
    note: (text) => process.stderr.write(`${text}\n`),
  })
  await Promise.all([calm.close(), stormy.close()])
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
  if (values.write) writeSection('Fault storm', stormSection(figures))
  process.exitCode = figures.wrong.length === 0 ? 0 : 1
} finally {
  removeProgram()
  await server.release()
  rmSync(home, { recursive: true, force: true })
}
