// `npm run soak -- --minutes 60`: the whole soak over a PostgreSQL of its own; with --write its figures go into docs/internals/reliability.md,
// with --logs FOLDER what every process said is kept there. `npm run soak -- --hostile --minutes 1000 --seed 1`: seeded minutes against everybody.
import { parseArgs } from 'node:util'
import { writeSection } from '../storm/reliability-page.ts'
import { useCompiledProgram } from '../support/program.ts'
import { runHostileSoak } from './hostile-soak.ts'
import { runSoak } from './soak.ts'
import { hostileSection, soakSection } from './soak-section.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    jobs: { type: 'string', default: '20' },
    workers: { type: 'string', default: '4' },
    'kill-every': { type: 'string', default: '20' },
    logs: { type: 'string' },
    write: { type: 'boolean', default: false },
    hostile: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    /** Seeded minutes of one warehouse. */
    block: { type: 'string', default: '25' },
    lanes: { type: 'string', default: '2' },
    /** No further block is begun after so many. */
    seconds: { type: 'string', default: '86400' },
  },
})
const note = (text: string): void => void process.stderr.write(`${text}\n`)

const soaked = async () => {
  const figures = await runSoak({
    minutes: Number(values.minutes),
    jobs: Number(values.jobs),
    workers: Number(values.workers),
    killEveryMs: Number(values['kill-every']) * 1_000,
    sampleEveryMs: 5_000,
    logs: values.logs ?? null,
    note,
  })
  return { figures, title: 'Soak', section: soakSection(figures) }
}

const attacked = async () => {
  const figures = await runHostileSoak({
    minutes: Number(values.minutes),
    seed: Number(values.seed),
    minutesOfBlock: Number(values.block),
    lanes: Number(values.lanes),
    seconds: Number(values.seconds),
    note,
  })
  return { figures, title: 'Hostile soak', section: hostileSection(figures) }
}

const removeProgram = await useCompiledProgram()
try {
  const { figures, title, section } = await (values.hostile ? attacked() : soaked())
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
  if (values.write) writeSection(title, section)
  process.exitCode = figures.wrong.length === 0 ? 0 : 1
} finally {
  removeProgram()
}
