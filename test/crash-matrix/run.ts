// `npm run crash-matrix`: every boundary and 1,000 pairs, over a PostgreSQL of its own. `--write` puts the figures into docs/internals/reliability.md;
// `--at 'POST|commit'` keeps the boundaries whose name has the pattern, `--only packed` those of what is loaded.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SingleBar } from 'cli-progress'
import { startEmbedded } from '../../src/db/embedded.ts'
import { writeSection } from '../storm/reliability-page.ts'
import { useCompiledProgram } from '../support/program.ts'
import { runMatrix } from './matrix.ts'
import { matrixSection } from './matrix-section.ts'
import { createWorld } from './world.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    sample: { type: 'string' },
    at: { type: 'string' },
    /** Names of what is loaded: `packed`, `keywords`, ...; default all. */
    only: { type: 'string' },
    pairs: { type: 'string', default: '1000' },
    lanes: { type: 'string', default: '2' },
    /** After so many no further kill is tried; those before are a seeded sample. */
    minutes: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
})
const home = mkdtempSync(join(tmpdir(), 'millrace-crash-db-'))
const server = await startEmbedded(home)
const removeProgram = await useCompiledProgram()
const bar = new SingleBar({
  format: '{bar} {value}/{total} kills, {wrong} wrong, time left {eta_formatted}',
  stream: process.stderr,
  noTTYOutput: true,
  notTTYSchedule: 10_000,
})
bar.start(1, 0, { wrong: 0 })
try {
  const world = await createWorld(server.url.reveal())
  const figures = await runMatrix({
    world,
    seed: Number(values.seed),
    sample: values.sample === undefined ? null : Number(values.sample),
    at: values.at === undefined ? null : new RegExp(values.at),
    only: values.only?.split(',') ?? null,
    pairs: Number(values.pairs),
    lanes: Number(values.lanes),
    minutes: values.minutes === undefined ? null : Number(values.minutes),
    progress: (done, of, wrong) => {
      bar.setTotal(of)
      bar.update(done, { wrong })
    },
  })
  bar.stop()
  for (const { calm, first, second, outcome } of [...figures.singles, ...figures.pairs]) {
    if (outcome.wrong.length > 0)
      process.stdout.write(
        `${calm.subject.name} ${calm.load}, killed at '${first}'${second ? `, then at '${second}'` : ''}:\n  ${outcome.wrong.join('\n  ')}\n`,
      )
  }
  process.stdout.write(matrixSection(figures))
  if (values.write) writeSection('Crash matrix', matrixSection(figures))
  process.exitCode = [...figures.singles, ...figures.pairs].some(({ outcome }) => outcome.wrong.length > 0) ? 1 : 0
  await world.close()
} finally {
  bar.stop()
  removeProgram()
  await server.release()
  rmSync(home, { recursive: true, force: true })
}
