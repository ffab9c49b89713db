// `npm run bench:peers -- --dir DIR --ingestr CLONE --write`: one paid report of a month into PostgreSQL with Millrace, dlt, Sling and ingestr, each as its
// manual says, against the sandbox. dlt and Sling are installed from PyPI into DIR, ingestr is built from a clone of its repository. The figures of
// docs/internals/peers.md, and in docs/comparison.md those in which another tool is better.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { openDatabase } from '../../src/db/connect.ts'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { useCompiledProgram } from '../../test/support/program.ts'
import { type Figures, tryPeer } from './figures.ts'
import { dlt, ingestr, millrace, type Peer, preparePeers, sling } from './peers.ts'

const { values } = parseArgs({
  options: {
    /** What is installed stays here. */
    dir: { type: 'string', default: join(tmpdir(), 'millrace-peers') },
    /** Left out: ingestr is measured only if DIR has it from an earlier run. */
    ingestr: { type: 'string' },
    /** 3,100 rows each, about. */
    domains: { type: 'string', default: '30' },
    rounds: { type: 'string', default: '3' },
    write: { type: 'boolean', default: false },
  },
})

const month = '2026-08'
const domains = Array.from({ length: Number(values.domains) }, (_, index) => `peer${index}.com`)
/** Words, figure, and whether less of it is better. */
const measured: readonly (readonly [words: string, of: (one: Figures) => string | number, lessIsBetter: boolean])[] = [
  ['first load: rows', ({ rows }) => rows, false],
  ['first load: seconds, the program’s start included', ({ firstSeconds }) => firstSeconds, true],
  [
    'first load: CPU seconds of the tool (PostgreSQL’s and the service’s not in it)',
    ({ firstCpuSeconds }) => firstCpuSeconds,
    true,
  ],
  ['first load: peak memory of its largest process, MB', ({ firstMegabytes }) => firstMegabytes, true],
  ['the same again, nothing changed: seconds', ({ againSeconds }) => againSeconds, true],
  ['the same again: reports bought', ({ againReports }) => againReports, true],
  ['killed after the submission, then run again: reports bought', ({ killedReports }) => killedReports, true],
  ['a restated month loaded: seconds', ({ restatedSeconds }) => restatedSeconds, true],
  ['its former values can be read', ({ keepsHistory }) => (keepsHistory ? 'yes' : 'no'), false],
  ['rows that vanished from the answer are gone from the table', ({ endsVanished }) => (endsVanished ? 'yes' : 'no'), false],
  ['five faults: rows missing though the command ended well', ({ lostRows }) => lostRows, true],
  ['five faults: those after which rows were missing', ({ lostBy }) => (lostBy.length === 0 ? 'none' : lostBy.join(', ')), false],
  ['lines of configuration and code', ({ lines }) => lines, true],
]
const folder = mkdtempSync(join(tmpdir(), 'millrace-peers-run-'))
const load = (): string => (loadavg()[0] ?? 0).toFixed(1)
const loadBefore = load()
const removeProgram = await useCompiledProgram()
const database = await openDatabase({ databaseUrl: null, home: join(folder, 'postgres') })
try {
  const tools = preparePeers(resolve(values.dir), values.ingestr)
  const rows: Figures[] = []
  for (const make of [millrace, dlt, sling, ...(tools.ingestr === null ? [] : [ingestr])]) {
    const one: Figures[] = []
    for (let round = 1; round <= Number(values.rounds); round += 1) one.push(await tryRound(make(tools), round))
    rows.push(middleOf(one))
  }
  const how = `Measured on ${new Date().toISOString().slice(0, 10)}; the middle of ${values.rounds} rounds; load of the machine ${loadBefore} at the beginning, ${load()} at the end, on ${cpus().length} cores.`
  const text = `${tableOf(rows)}\n\n${how}`
  process.stdout.write(`${text}\n`)
  if (values.write) {
    writeSection(join('internals', 'peers.md'), text)
    writeSection('comparison.md', lossesOf(rows))
  }
} finally {
  await database.close()
  removeProgram()
  rmSync(folder, { recursive: true, force: true })
}

/** Each on a database, a folder and a service of its own. */
async function tryRound(peer: Peer, round: number): Promise<Figures> {
  const name = `peer_${peer.name.toLowerCase()}_${round}`
  await database.pool.query(`create database ${name}`)
  const url = new URL(database.url.reveal())
  url.pathname = `/${name}`
  const own = join(folder, name)
  mkdirSync(own)
  const sandbox = await startSandbox({ requestsPerSecond: null, quota: 100_000_000, reportDurationMs: 1_000 })
  try {
    const figures = await tryPeer(peer, { sandbox, month, domains, folder: own, databaseUrl: url.href })
    process.stderr.write(`${JSON.stringify(figures)}\n`)
    return figures
  } finally {
    await sandbox.close()
  }
}

/** The round whose first load took neither the least nor the most. */
function middleOf(rounds: readonly Figures[]): Figures {
  const sorted = rounds.toSorted((a, b) => a.firstSeconds - b.firstSeconds)
  const middle = sorted[Math.floor(sorted.length / 2)]
  if (middle === undefined) throw new Error('no round was run')
  return middle
}

function tableOf(all: readonly Figures[]): string {
  const line = ([words, of]: (typeof measured)[number]): string => `| ${words} | ${all.map(shownBy(of)).join(' | ')} |`
  return [
    `| | ${all.map(({ name, version }) => `${name} ${version}`).join(' | ')} |`,
    `| --- |${all.map(() => ' --- |').join('')}`,
    ...measured.map(line),
  ].join('\n')
}

function shownBy(of: (one: Figures) => string | number): (one: Figures) => string {
  return (one) => of(one).toLocaleString('en-US')
}

/** In which rows another tool has less than Millrace, and where that is better. */
function lossesOf(all: readonly Figures[]): string {
  const [own, ...others] = all
  const lost = measured.flatMap(([words, of, lessIsBetter]) => {
    const best = others.toSorted((a, b) => Number(of(a)) - Number(of(b)))[0]
    if (own === undefined || best === undefined || !lessIsBetter || Number(of(best)) >= Number(of(own))) return []
    return [`- ${words}: ${best.name} ${shownBy(of)(best)}, Millrace ${shownBy(of)(own)}`]
  })
  return lost.length === 0 ? 'None.' : lost.join('\n')
}

function writeSection(page: string, text: string): void {
  const file = resolve(import.meta.dirname, '..', '..', 'docs', page)
  const between = /(<!-- measured: npm run bench:peers[^\n]* -->\n)[\s\S]*?(<!-- end of measured -->)/
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace(between, (_, begin: string, end: string) => `${begin}${text}\n${end}`),
  )
}
