// The memory limits of the Kubernetes templates leave room above every peak that the bench has measured or allows.
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { goals } from '../../bench/goals.ts'

const root = resolve(import.meta.dirname, '..', '..')
const folder = join(root, 'templates', 'warehouse', 'deploy', 'kubernetes')

const limits = readdirSync(folder).flatMap((file) =>
  [...readFileSync(join(folder, file), 'utf8').matchAll(/limits: \{[^}]*memory: (\d+)Mi/g)].map(([, mebibytes]) => ({
    file,
    megabytes: (Number(mebibytes) * 1_048_576) / 1e6,
  })),
)

/** Peaks in megabytes, of every line of the results that speaks of memory. */
const measured = readFileSync(join(root, 'bench', 'RESULTS.md'), 'utf8')
  .split('\n')
  .filter((line) => /memory/i.test(line))
  .flatMap((line) => [...line.matchAll(/([\d,]+) MB/g)].map(([, megabytes = '']) => Number(megabytes.replaceAll(',', ''))))

/** Of the limit may be used at a peak; the rest is for what a bench does not do. */
const share = 0.75

describe('the memory limits of the Kubernetes templates', () => {
  test('are there for all that run there', () => {
    expect(limits.map(({ file }) => file).sort()).toEqual(['cronjob.yaml', 'migrate.yaml', 'schedule.yaml', 'worker.yaml'])
  })

  test('hold every measured peak, and every peak that the bench lets pass', () => {
    const allowed = goals.filter(({ measure }) => measure === 'megabytes').map(({ limit }) => limit)
    expect(measured.length).toBeGreaterThan(1)
    expect(allowed.length).toBeGreaterThan(3)
    const highest = Math.max(...measured, ...allowed)
    for (const { file, megabytes } of limits) expect(highest, file).toBeLessThanOrEqual(megabytes * share)
  })
})
