// `npm run bench:peers -- --dir DIR --ingestr CLONE --write`: one paid report of a month into PostgreSQL with Millrace, dlt, Sling and ingestr, each as its
// manual says, against the sandbox. dlt and Sling are installed from PyPI into DIR, ingestr is built from a clone of its repository. The figures of
// docs/internals/peers.md.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
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
    /** Left out: ingestr is not measured. */
    ingestr: { type: 'string' },
    /** 3,100 rows each, about. */
    domains: { type: 'string', default: '30' },
    rounds: { type: 'string', default: '3' },
    write: { type: 'boolean', default: false },
  },
})

const month = '2026-08'
const domains = Array.from({ length: Number(values.domains) }, (_, index) => `peer${index}.com`)
const folder = mkdtempSync(join(tmpdir(), 'millrace-peers-run-'))
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
  const text = tableOf(rows)
  process.stdout.write(`${text}\n`)
  if (values.write) writeSection(text)
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
  const line = (words: string, of: (one: Figures) => string | number): string => `| ${words} | ${all.map(of).join(' | ')} |`
  return [
    line('', ({ name, version }) => `${name} ${version}`),
    `| --- |${all.map(() => ' --- |').join('')}`,
    line('first load: rows', ({ rows }) => rows.toLocaleString('en-US')),
    line('first load: seconds, the program’s start included', ({ firstSeconds }) => firstSeconds),
    line('first load: CPU seconds of the tool', ({ firstCpuSeconds }) => firstCpuSeconds),
    line('first load: peak memory of its largest process, MB', ({ firstMegabytes }) => firstMegabytes),
    line('the same again, nothing changed: seconds', ({ againSeconds }) => againSeconds),
    line('the same again: reports bought', ({ againReports }) => againReports),
    line('killed after the submission, then run again: reports bought', ({ killedReports }) => killedReports),
    line('a restated month loaded: seconds', ({ restatedSeconds }) => restatedSeconds),
    line('its former values can be read', ({ keepsHistory }) => (keepsHistory ? 'yes' : 'no')),
    line('rows that vanished from the answer are gone from the table', ({ endsVanished }) => (endsVanished ? 'yes' : 'no')),
    line('five faults: rows missing though the command ended well', ({ lostRows }) => lostRows.toLocaleString('en-US')),
    line('five faults: those after which rows were missing', ({ lostBy }) => (lostBy.length === 0 ? 'none' : lostBy.join(', '))),
    line('lines of configuration and code', ({ lines }) => lines),
  ].join('\n')
}

function writeSection(text: string): void {
  const page = resolve(import.meta.dirname, '..', '..', 'docs', 'internals', 'peers.md')
  const between = /(<!-- measured: npm run bench:peers -->\n)[\s\S]*?(<!-- end of measured -->)/
  writeFileSync(
    page,
    readFileSync(page, 'utf8').replace(between, (_, begin: string, end: string) => `${begin}${text}\n${end}`),
  )
}
