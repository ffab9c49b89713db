// The first hour on the oldest Node.js that is supported, with the time of each step. `node test/first-hour/run.ts` does it with 22, 24 and 26.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { firstHour } from '../first-hour/first-hour.ts'
import { installNode, tarballName } from '../first-hour/packed.ts'

const manifest = readFileSync(join(import.meta.dirname, '..', '..', 'package.json'), 'utf8')
const [, oldest = 'none'] = /"node": ">=([\d.]+)"/.exec(manifest) ?? []
/** Whole megabytes of what `npm install` of the packed program brings, the embedded server included. */
const mostMegabytes = 120

let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'millrace-first-hour-'))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

test(`with Node.js ${oldest} leads from npm to rows, a dataset of one's own, a mart, a schedule and a page`, async () => {
  const node = installNode(join(root, 'node'), oldest)
  const folder = join(root, 'empty')
  mkdirSync(folder)
  const steps = await firstHour({
    ...{ node, folder, tarball: process.env[tarballName] ?? 'nothing was packed' },
    tell: ({ name, seconds, saw }) => console.log(`first hour, Node.js ${oldest}: ${name}: ${seconds} s (${saw})`),
  })
  expect(steps).toHaveLength(6)
  expect(Number.parseInt(steps[0]?.saw ?? '', 10)).toBeLessThanOrEqual(mostMegabytes)
})
