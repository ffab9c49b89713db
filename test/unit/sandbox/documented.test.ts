import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { faultKinds } from '../../../src/sandbox/fault-kinds.ts'

test('every fault is tried by itself', () => {
  const files = ['../../e2e/sandbox-faults.test.ts', 'report-text.test.ts']
  const tried = files.map((file) => readFileSync(join(import.meta.dirname, file), 'utf8')).join('')
  expect(Object.keys(faultKinds).filter((kind) => !tried.includes(`'${kind}'`))).toEqual([])
})
