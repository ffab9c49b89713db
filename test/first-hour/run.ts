// `node test/first-hour/run.ts --nodes 22.19.0,22,24,26 --write`: the first hour with each Node.js, from npm, and how long each step takes; `--write` puts the
// table into docs/internals/first-hour.md.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { firstHour, type Step } from './first-hour.ts'
import { installNode, pack } from './packed.ts'
import { tableOf, writePage } from './page.ts'

const { values } = parseArgs({
  options: {
    nodes: { type: 'string', default: '22.19.0,24,26' },
    /** Puts the table into docs/internals/first-hour.md. */
    write: { type: 'boolean', default: false },
    /** Leaves the folders there. */
    keep: { type: 'boolean', default: false },
  },
})

const root = mkdtempSync(join(tmpdir(), 'millrace-first-hour-'))
const versions = values.nodes.split(',')
const columns: (readonly Step[])[] = []
const names: string[] = []
const loads: number[] = [0]
try {
  const began = performance.now()
  const tarball = pack(root)
  const packing = ((performance.now() - began) / 1000).toFixed(1)
  process.stdout.write(`npm pack: ${packing} s\n`)
  for (const version of versions) {
    const node = installNode(join(root, `node-${version}`), version)
    names.push(execFileSync(join(node, 'node'), ['--version'], { encoding: 'utf8' }).trim().replace('v', ''))
    process.stdout.write(`\nNode.js ${names.at(-1)}\n`)
    const folder = join(root, `with-${version}`)
    mkdirSync(folder)
    const tell = ({ name, seconds, saw }: Step): void => {
      loads.push(loadavg()[0] ?? 0)
      process.stdout.write(`  ${name}: ${seconds} s (${saw})\n`)
    }
    columns.push(await firstHour({ node, tarball, folder, tell }))
    const [first] = columns[0] ?? []
    const load = Math.max(...loads).toFixed(0)
    const about = `Seconds on ${availableParallelism()} cores with other work (load up to ${load}); \`npm pack\` took ${packing} s, once. After step 1: ${first?.saw}.`
    const table = `${tableOf(names, columns)}\n\n${about}`
    process.stdout.write(`\n${table}\n`)
    if (values.write) writePage(table)
  }
} finally {
  if (values.keep) process.stdout.write(`kept: ${resolve(root)}\n`)
  else rmSync(root, { recursive: true, force: true })
}
