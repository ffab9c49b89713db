// What the Tab key offers.
import { expect, test } from 'vitest'
import { commands } from '../../../src/cli/commands.ts'
import { completeWords } from '../../../src/cli/completion.ts'
import { buildProgram } from '../../../src/cli/main.ts'

const ending = { signal: new AbortController().signal, isSignalled: () => false, stop: () => undefined }
const program = buildProgram(commands, ending, () => undefined)

const offered = (line: string): string[] =>
  completeWords(program, line.split(' '), () => ['keywords', 'traffic_sources']).map(({ text }) => text)

test.each([
  ['ba', ['backfill']],
  ['re', ['replay', 'release', 'reports', 'record']],
  ['quarantine ', ['list', 'show', 'retry']],
  ['quarantine list --l', ['--limit']],
  ['run k', ['keywords']],
  ['backfill keywords ', ['keywords', 'traffic_sources']],
  ['backfill --from 2026-01 t', ['traffic_sources']],
  ['backfill keywords --order ', ['newest', 'oldest']],
  ['migrate --as m', ['moved', 'moved-service']],
  ['status --pip', ['--pipelines']],
  ['run --pipelines ', []],
  ['cancel ', []],
  ['nonsense ', []],
])('after `millrace %s` come %j', (line, expected) => {
  expect(offered(line)).toEqual(expected)
})

test('every command and every option is offered', () => {
  expect(offered('')).toEqual(commands.map(({ usage }) => usage.split(' ')[0]))
  expect(offered('run --')).toEqual(['--dry-run', '--only', '--yes', '--resubmit-uncertain', '--json', '--pipelines', '--help'])
})
