// What is skipped says at the end of the tests how to get what it lacks.
import { readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { listFiles } from '../../scripts/structure.ts'
import { wantedLines, wants } from '../support/wants.ts'

const root = resolve(import.meta.dirname, '..', '..')

test('every file whose tests may be skipped says what they lack and how to get it, and no other file is named', () => {
  const files = listFiles(join(root, 'test'))
    .filter((file) => file.endsWith('.test.ts') && /\.(?:skipIf|runIf)\(/.test(readFileSync(file, 'utf8')))
    .map((file) => relative(root, file))
    .filter((file) => file !== join('test', 'unit', 'wants.test.ts'))
  expect(files.filter((file) => !wants.some((want) => want.file.test(file)))).toEqual([])
  expect(wants.filter((want) => !files.some((file) => want.file.test(file))).map(({ lacks }) => lacks)).toEqual([])
})

test('they are counted by what they lack', () => {
  const lines = wantedLines([
    { file: 'test/browser/status-page.test.ts', name: 'one' },
    { file: 'test/browser/status-page.test.ts', name: 'two' },
    { file: 'test/e2e/analysts.test.ts', name: 'on a real Superset > a dashboard' },
    { file: 'test/e2e/unknown.test.ts', name: 'three' },
  ])
  expect(lines).toEqual([
    '  2 lack Chromium: `apt-get install chromium`',
    '  1 lack Superset: `bash test/clients/superset.sh`',
    '  1 for other reasons, which their files name',
  ])
})
