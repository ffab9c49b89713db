// `npm run soak -- --minutes 60`: the whole soak over a PostgreSQL of its own; with --write its figures go into docs/internals/reliability.md,
// with --logs FOLDER what every process said is kept there.
import { parseArgs } from 'node:util'
import { writeSection } from '../storm/reliability-page.ts'
import { useCompiledProgram } from '../support/program.ts'
import { runSoak } from './soak.ts'
import { soakSection } from './soak-section.ts'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    jobs: { type: 'string', default: '20' },
    workers: { type: 'string', default: '4' },
    'kill-every': { type: 'string', default: '20' },
    logs: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
})
const removeProgram = await useCompiledProgram()
try {
  const figures = await runSoak({
    minutes: Number(values.minutes),
    jobs: Number(values.jobs),
    workers: Number(values.workers),
    killEveryMs: Number(values['kill-every']) * 1_000,
    sampleEveryMs: 5_000,
    logs: values.logs ?? null,
    note: (text) => process.stderr.write(`${text}\n`),
  })
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
  if (values.write) writeSection('Soak', soakSection(figures))
  process.exitCode = figures.wrong.length === 0 ? 0 : 1
} finally {
  removeProgram()
}
