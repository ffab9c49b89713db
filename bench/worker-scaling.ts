// `node bench/worker-scaling.ts`: the same walks with 1, 2, 4 and 8 processes on one queue, up to the rate the service allows. --write puts the table into docs/internals/reliability.md.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startEmbedded } from '../src/db/embedded.ts'
import { type Sandbox, startSandbox } from '../src/sandbox/sandbox-server.ts'
import { createOwnDatabase, type OwnDatabase } from '../test/storm/own-database.ts'
import { writeSection } from '../test/storm/reliability-page.ts'
import { pipelinesOfRepository, type RunningCommand, startCommand, summaryOf } from '../test/support/command.ts'
import { useCompiledProgram } from '../test/support/program.ts'

const { values } = parseArgs({
  options: {
    units: { type: 'string', default: '120' },
    rates: { type: 'string', default: '10,20' },
    latency: { type: 'string', default: '200' },
    processes: { type: 'string', default: '1,2,4,8' },
    write: { type: 'boolean', default: false },
  },
})
const [units, latencyMs] = [Number(values.units), Number(values.latency)]
const [counts, rates] = [values.processes.split(',').map(Number), values.rates.split(',').map(Number)]
const months = ['2025-01', '2025-02']

interface Round {
  /** Requests a second the service allows. */
  readonly rate: number
  readonly processes: number
  /** From the first request that reached the service to the last. */
  readonly seconds: number
  readonly requests: number
  readonly refused: number
  /** Units by process, the most first. */
  readonly shares: readonly number[]
  readonly loadedTwice: number
}

/** One unit at a time in each process, so that what is measured is how processes add up. */
const createFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-scaling-'))
  mkdirSync(join(folder, 'pipelines'))
  const yaml = readFileSync(join(pipelinesOfRepository, 'keywords.yaml'), 'utf8')
    .replace('page_size: 1000', 'page_size: 20')
    .replace('concurrency: 4', 'concurrency: 1')
    .replace('country: [us, gb]', 'country: [us]')
  writeFileSync(join(folder, 'pipelines', 'keywords.yaml'), yaml)
  const domains = Array.from({ length: Math.ceil(units / months.length) }, (_, index) => `site${index}.example`)
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), `${domains.join('\n')}\n`)
  return folder
}

const untilPrinted = async (running: RunningCommand, text: string): Promise<void> => {
  while (!running.printed().includes(text)) {
    if (running.child.exitCode !== null) throw new Error(running.printed())
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** A backfill and further workers, which wait for its units before it starts. */
const measure = async (
  folder: string,
  sandbox: Sandbox,
  database: OwnDatabase,
  rate: number,
  processes: number,
): Promise<Round> => {
  const environment = {
    WEB_ANALYTICS_BASE_URL: sandbox.url,
    WEB_ANALYTICS_API_KEY: sandbox.apiKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: String(rate),
    DATABASE_URL: database.url,
    MILLRACE_HOME: join(folder, 'home'),
    MILLRACE_WEB_PORT: '0',
  }
  const workers = Array.from({ length: processes - 1 }, () => startCommand(['worker', '--json'], environment, folder))
  try {
    for (const worker of workers) await untilPrinted(worker, 'status_page')
    const command = ['backfill', 'keywords', '--from', months[0] ?? '', '--to', months.at(-1) ?? '', '--json']
    const backfill = await startCommand(command, environment, folder).result
    if (backfill.code !== 0 || summaryOf(backfill).units.loaded !== units) throw new Error(backfill.stderr)
    for (const { child } of workers) child.kill('SIGTERM')
    const results = [backfill, ...(await Promise.all(workers.map(({ result }) => result)))]
    const shares = results.map(({ events }) => events.filter(({ event, state }) => event === 'unit' && state === 'loaded').length)
    const twice = await database.pool.query(
      `select from etl.loads l join etl.jobs j using (job_id) where l.outcome = 'loaded' group by l.window_from, j.slice_ids having count(*) > 1`,
    )
    const asked = sandbox.books().requests.filter(({ endpoint }) => endpoint === 'keywords')
    const times = asked.map(({ at }) => Date.parse(at))
    return {
      rate,
      processes,
      seconds: (Math.max(...times) - Math.min(...times)) / 1000,
      requests: asked.length,
      refused: asked.filter(({ status }) => status === 429).length,
      shares: shares.sort((a, b) => b - a),
      loadedTwice: twice.rows.length,
    }
  } finally {
    for (const { child } of workers) child.kill('SIGKILL')
  }
}

const tableOf = (rounds: readonly Round[]): string => {
  const perSecond = (round: Round): number => (round.requests - 1) / round.seconds
  const rows = rounds.map((round) => {
    const alone = rounds.find(({ rate }) => rate === round.rate) ?? round
    const share = `${((perSecond(round) / round.rate) * 100).toFixed(0)} %`
    const ratio = `${(perSecond(round) / perSecond(alone)).toFixed(2)} x`
    return `| ${[round.rate, round.processes, ratio, share, round.refused, round.shares.join(', '), round.loadedTwice].join(' | ')} |`
  })
  const pages = ((rounds[0]?.requests ?? 0) / units).toFixed(0)
  return `\`node bench/worker-scaling.ts\`: ${units} keyword jobs of ${pages} pages, ${latencyMs} ms a request, one unit at a time in each process, all of them sharing the requests a second
that the service allows. A backfill and further \`worker\` processes on one machine with two cores that other work kept busy; each figure one round.

| allowed a second | processes | requests a second, against one process | of what is allowed | answers 429 | units by process | loaded twice |
| --- | --- | --- | --- | --- | --- | --- |
${rows.join('\n')}`
}

const folder = createFolder()
const server = await startEmbedded(join(folder, 'postgres'))
const removeProgram = await useCompiledProgram()
const rounds: Round[] = []
try {
  for (const [rate, processes] of rates.flatMap((rate) => counts.map((count) => [rate, count] as const))) {
    const sandbox = await startSandbox({ seed: 7, keywordsPerDomain: 40, requestsPerSecond: rate, latencyMs, now: '2026-03-20' })
    const database = await createOwnDatabase(server.url.reveal(), `scaling_${rate}_${processes}`)
    try {
      const round = await measure(folder, sandbox, database, rate, processes)
      rounds.push(round)
      process.stderr.write(`${JSON.stringify(round)}\n`)
    } finally {
      await sandbox.close()
      await database.close()
    }
  }
  process.stdout.write(`${tableOf(rounds)}\n`)
  if (values.write) writeSection('Workers side by side', tableOf(rounds))
} finally {
  removeProgram()
  await server.release()
  rmSync(folder, { recursive: true, force: true })
}
