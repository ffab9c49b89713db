// Every test file is run by a command that continuous integration runs, or needs something that not every machine has.
import { existsSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { listFiles } from '../../scripts/structure.ts'
import { long, nightly, volume } from '../support/long.ts'

const root = resolve(import.meta.dirname, '..', '..')

test('what takes long is there, once; the page in a browser and commands against each other are part of it', () => {
  const slow = [...long, ...nightly]
  expect([...slow, ...volume].filter((file) => !existsSync(join(root, file)))).toEqual([])
  const named: ReadonlySet<string> = new Set(slow)
  expect(named.size).toBe(slow.length)
  const files = ['browser', 'outsider'].flatMap((folder) => listFiles(join(root, 'test', folder)))
  const tests = files.map((file) => relative(root, file)).filter((file) => file.endsWith('.test.ts'))
  expect(tests.filter((file) => !named.has(file))).toEqual([])
})
