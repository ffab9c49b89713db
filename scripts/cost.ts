// What a change costs, as a table in Markdown: the package, the start of a command and its memory, lines of code, of tests and of pages, against a base.
// Run: node scripts/cost.ts --base origin/main
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { listFiles } from './structure.ts'

const root = resolve(import.meta.dirname, '..')
const { values } = parseArgs({ options: { base: { type: 'string', default: 'origin/main' } } })
const rounds = 7

interface Cost {
  readonly name: string
  readonly unit: string
  readonly value: number
}

const linesIn = (folder: string): number =>
  listFiles(folder).reduce((sum, file) => sum + readFileSync(file, 'utf8').split('\n').length - 1, 0)

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

/** Prints its own peak as it ends. */
const telling = `--import=data:text/javascript,process.on('exit',()=>process._rawDebug('peak '+process.resourceUsage().maxRSS))`

interface Start {
  readonly milliseconds: number
  readonly megabytes: number
}

const started = (folder: string): Start => {
  const begin = performance.now()
  const { status, stderr } = spawnSync(process.execPath, [telling, join(folder, 'bin', 'millrace.js'), '--help'], {
    cwd: tmpdir(),
    encoding: 'utf8',
  })
  const peak = /peak (\d+)/.exec(stderr)?.[1]
  if (status !== 0 || peak === undefined) throw new Error(`millrace --help in ${folder}: ${status} ${stderr}`)
  return { milliseconds: performance.now() - begin, megabytes: Number(peak) / 1024 }
}

const packed = z.tuple([z.object({ size: z.number(), unpackedSize: z.number() })])

/** Compiles the folder first. */
const sizesOf = (folder: string): readonly Cost[] => {
  const run = (program: string, args: readonly string[]): string =>
    execFileSync(program, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  run(process.execPath, ['scripts/build.ts'])
  const [{ size, unpackedSize }] = packed.parse(
    JSON.parse(run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts', '--silent'])),
  )
  return [
    { name: 'package', unit: 'kB', value: size / 1000 },
    { name: 'package, unpacked', unit: 'kB', value: unpackedSize / 1000 },
    { name: 'lines in src', unit: '', value: linesIn(join(folder, 'src')) },
    { name: 'lines in test', unit: '', value: linesIn(join(folder, 'test')) },
  ]
}

const startOf = (all: readonly Start[]): readonly Cost[] => [
  { name: 'start of `--help`', unit: 'ms', value: median(all.map(({ milliseconds }) => milliseconds)) },
  { name: 'its memory', unit: 'MB', value: median(all.map(({ megabytes }) => megabytes)) },
]

const shown = ({ unit }: Cost, value: number): string => `${Math.round(value).toLocaleString('en-US')} ${unit}`.trim()

const base = mkdtempSync(join(tmpdir(), 'millrace-cost-'))
execFileSync('git', ['worktree', 'add', '--quiet', '--detach', '--force', base, values.base], { cwd: root })
try {
  symlinkSync(join(root, 'node_modules'), join(base, 'node_modules'))
  const sizes = [sizesOf(base), sizesOf(root)] as const
  // In turns: what else the machine does falls on both alike.
  const starts = Array.from({ length: rounds }, () => [started(base), started(root)] as const)
  const before = [...sizes[0], ...startOf(starts.map(([one]) => one))]
  const after = [...sizes[1], ...startOf(starts.map(([, one]) => one))]
  const rows = after.map((now, at) => {
    const then = before[at]?.value ?? 0
    const change = then === 0 ? '' : `${now.value >= then ? '+' : ''}${((100 * (now.value - then)) / then).toFixed(1)} %`
    return `| ${now.name} | ${shown(now, then)} | ${shown(now, now.value)} | ${change} |`
  })
  process.stdout.write(`| cost | ${values.base} | this change | |\n| --- | --- | --- | --- |\n${rows.join('\n')}\n`)
} finally {
  execFileSync('git', ['worktree', 'remove', '--force', base], { cwd: root })
  rmSync(base, { recursive: true, force: true })
}
