// `node test/outsider/heard-run.ts --places keywords,status --answers 429,503 --write`: every endpoint with every bad answer, and the limits nobody configured.
import { parseArgs } from 'node:util'
import { useCompiledProgram } from '../support/program.ts'
import { writeSection } from '../storm/reliability-page.ts'
import { startDatabases } from './databases.ts'
import { boundedPlaces, tryAlone, tryBounded } from './bounded.ts'
import { badAnswers, calmRun, loadingPlaces, lookingPlaces, tryHeard } from './heard.ts'
import { tryLasting, tryPages, trySteady } from './paced.ts'

const { values } = parseArgs({
  options: {
    places: { type: 'string', default: [...loadingPlaces, ...lookingPlaces].join() },
    answers: { type: 'string', default: badAnswers.join() },
    /** How long four processes ask at once, the first minute of it learning. */
    seconds: { type: 'string', default: '180' },
    pacing: { type: 'boolean', default: true },
    /** Into docs/internals/reliability.md. */
    write: { type: 'boolean', default: false },
    compiled: { type: 'boolean', default: true },
  },
  allowNegative: true,
})

const removeProgram = values.compiled ? await useCompiledProgram() : () => undefined
const databases = await startDatabases()
const note = (text: string): void => void process.stderr.write(`${text}\n`)
let failed = 0

const told = (name: string, wrong: readonly string[], figures: string): void => {
  if (wrong.length > 0) failed += 1
  note(`${wrong.length === 0 ? 'ok   ' : 'WRONG'} ${name}: ${figures}`)
  for (const line of wrong) note(`    - ${line.trimEnd().replaceAll('\n', '\n        ')}`)
}

const tryAnswers = async (): Promise<string[]> => {
  const rows: string[] = []
  const chosen = values.places.split(',')
  for (const place of [...loadingPlaces, ...lookingPlaces].filter((one) => chosen.includes(one))) {
    const calm = await calmRun(databases, place)
    const seconds: number[] = []
    const before = failed
    for (const answer of badAnswers.filter((one) => values.answers.split(',').includes(String(one)))) {
      const heard = await tryHeard(databases, place, answer, calm)
      seconds.push(heard.seconds)
      told(`${place} ${answer}`, heard.wrong, `${heard.seconds.toFixed(1)} s`)
    }
    rows.push(`| ${place} | ${seconds.length} | ${failed - before} | ${Math.max(...seconds).toFixed(0)} s |`)
  }
  return rows
}

const tryPacing = async (): Promise<string[]> => {
  const rows: string[] = []
  const row = (name: string, wrong: readonly string[], figures: string): void => {
    told(name, wrong, figures)
    rows.push(`| ${name} | ${figures} | ${wrong.length} |`)
  }
  for (const [pages, allowed, most] of [
    [30, 20, 10],
    [30, 5, 20],
    [120, 20, 20],
  ] as const) {
    const { seconds, requests, refused, wrong } = await tryPages(databases, {
      pages,
      allowed,
      configured: 1000,
      retryAfter: 'none',
      most,
    })
    row(
      `${pages} pages, ${allowed} a second allowed, 1,000 configured`,
      wrong,
      `${seconds.toFixed(1)} s, ${requests} requests, ${refused} answered 429`,
    )
  }
  const steady = { processes: 4, allowed: 20, configured: 40, seconds: Number(values.seconds), learnSeconds: 60 }
  const { requests, refusedShare, used, wrong } = await trySteady(databases, steady)
  const share = `${(refusedShare * 100).toFixed(1)} % answered 429 after a minute, ${(used * 100).toFixed(0)} % of the limit used`
  row(`four processes, 20 a second allowed, 40 configured, ${values.seconds} s`, wrong, `${requests} requests, ${share}`)
  const lasting = await tryLasting(databases)
  const said = `said on standard error after ${lasting.saidSeconds.toFixed(1)} s, ${lasting.requests} requests for 30 units, over after ${lasting.seconds.toFixed(0)} s`
  row('429 for good, then over', lasting.wrong, said)
  // Too many open reports are waited for until the deadline, however many tries that takes.
  for (const place of boundedPlaces)
    for (const bound of place === 'submit' ? (['deadline'] as const) : (['attempts', 'deadline'] as const)) {
      const { seconds, wrong } = await tryBounded(databases, place, bound)
      row(
        `429 for good at ${place}, ${boundWords[bound]}, then over`,
        wrong,
        `over after ${seconds.toFixed(0)} s, units named and waiting`,
      )
    }
  const alone = await tryAlone(databases)
  row('429 for good at submit, others answered in between', alone.wrong, `said after ${alone.seconds.toFixed(1)} s`)
  return rows
}

const boundWords = { attempts: '`limits.attempts: 1`', deadline: '`limits.deadline: 4s`' }

try {
  const answers = await tryAnswers()
  const pacing = values.pacing ? await tryPacing() : []
  if (values.write)
    writeSection(
      'Every bad answer at every endpoint',
      `Each endpoint answers each of ${badAnswers.join(', ')} for good.
The command ends by itself, or is still waiting for a paid report after four seconds; then all is well again.
The same command must end with exit code 0, with the rows and the submissions of a calm run. A submission whose answer was lost is repeated with consent.
\`limits.attempts: 2\`, \`limits.timeout: 1s\`. Samples are part of \`npm run test:long\`; again: \`node test/outsider/heard-run.ts --write\`.

| endpoint | answers tried | wrong | the longest a command waited |
| --- | --- | --- | --- |
${answers.join('\n')}

| limit that is not configured | figures | wrong |
| --- | --- | --- |
${pacing.join('\n')}`,
    )
  process.exitCode = failed === 0 ? 0 : 1
} finally {
  removeProgram()
  await databases.remove()
}
