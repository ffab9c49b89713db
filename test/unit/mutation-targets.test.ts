// The mutation check runs by hand and each night at most: that what it names is there is seen here.
import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { targets } from '../mutation/targets.ts'

test('each file that the mutation check changes is there and named once, and so are the tests that must notice', () => {
  const files = targets.flatMap((target) => target.files)
  const tests = targets.flatMap((target) => target.tests)
  expect([...files, ...tests].filter((path) => !existsSync(path))).toEqual([])
  expect(files.filter((path, place) => files.indexOf(path) !== place)).toEqual([])
})
