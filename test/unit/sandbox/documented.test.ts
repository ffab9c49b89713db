import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sandboxFlags } from '../../../src/sandbox/cli.ts'
import { faultKinds, faultPlaces } from '../../../src/sandbox/fault-kinds.ts'
import { routes } from '../../../src/sandbox/routes.ts'

const page = readFileSync(join(import.meta.dirname, '../../../docs/sandbox.md'), 'utf8')

test('docs/sandbox.md lists every flag as --help has it', () => {
  expect(sandboxFlags.filter(({ flags, description }) => !page.includes(`| \`${flags}\` | ${description} |`))).toEqual([])
})

test('docs/sandbox.md lists every fault, its place and what it does', () => {
  const missing = Object.entries(faultKinds).filter(([name, { on, does }]) => !page.includes(`| \`${name}\` | ${on} | ${does} |`))
  expect(missing).toEqual([])
  expect(faultPlaces.filter((place) => !page.includes(`\`${place}\``))).toEqual([])
})

test('every fault is tried by itself', () => {
  const files = ['../../e2e/sandbox-faults.test.ts', 'report-text.test.ts']
  const tried = files.map((file) => readFileSync(join(import.meta.dirname, file), 'utf8')).join('')
  expect(Object.keys(faultKinds).filter((kind) => !tried.includes(`'${kind}'`))).toEqual([])
})

test('docs/sandbox.md lists every extension', () => {
  const extensions = routes.filter(({ isExtension }) => isExtension)
  expect(extensions.filter(({ method, path }) => !page.includes(`\`${method} ${path}\``)).map(({ path }) => path)).toEqual([])
})
