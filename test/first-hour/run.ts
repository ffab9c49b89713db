// `npm run first-hour -- --nodes 22.18.0,22,24,26`: the first hour with each Node.js, from npm, and how long each step takes.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { textWidth } from '../../src/cli/terminal.ts'
import { firstHour, type Step } from './first-hour.ts'
import { installNode, pack } from './packed.ts'

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '22,24,26' },
    /** Leaves the folders there. */
    keep: { type: 'boolean', default: false },
  },
})

const root = mkdtempSync(join(tmpdir(), 'millrace-first-hour-'))
const versions = values.nodes.split(',')
const columns: (readonly Step[])[] = []
try {
  const began = performance.now()
  const tarball = pack(root)
  process.stdout.write(`npm pack: ${((performance.now() - began) / 1000).toFixed(1)} s\n`)
  for (const version of versions) {
    const node = installNode(join(root, `node-${version}`), version)
    process.stdout.write(`\n${execFileSync(join(node, 'node'), ['--version'], { encoding: 'utf8' }).trim()}\n`)
    const folder = join(root, `with-${version}`)
    mkdirSync(folder)
    const tell = ({ name, seconds, saw }: Step): void => void process.stdout.write(`  ${name}: ${seconds} s (${saw})\n`)
    columns.push(await firstHour({ node, tarball, folder, tell }))
  }
  process.stdout.write(`\n${tableOf(columns)}\n`)
} finally {
  if (values.keep) process.stdout.write(`kept: ${resolve(root)}\n`)
  else rmSync(root, { recursive: true, force: true })
}

/** A step a line, a Node.js a column, as Markdown. */
function tableOf(all: readonly (readonly Step[])[]): string {
  const lines = (all[0] ?? []).map(({ name }, index) => [name, ...all.map((steps) => `${steps[index]?.seconds} s`)])
  const sum = all.map((steps) => `${steps.reduce((total, { seconds }) => total + seconds, 0).toFixed(1)} s`)
  const rows = [
    ['step', ...versions.map((version) => `Node ${version}`)],
    ['---', ...versions.map(() => '---')],
    ...lines,
    ['all', ...sum],
  ]
  const width = Math.max(...rows.map(([first = '']) => textWidth(first)))
  return rows.map(([first = '', ...rest]) => `| ${first.padEnd(width)} | ${rest.join(' | ')} |`).join('\n')
}
