// What the Tab key offers.
import { expect, test } from 'vitest'
import { commands } from '../../../src/cli/commands.ts'
import { completeWords } from '../../../src/cli/completion.ts'

const offered = (line: string): string[] =>
  completeWords(commands, line.split(' '), () => ['keywords', 'traffic_sources']).map(({ text }) => text)

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
