// What a plan offers where the service has changed its method: the command asks for the windows whose price it names, and for no others.
import { expect, test } from 'vitest'
import type { WindowSize } from '../../../src/core/types.ts'
import { inclusiveRange } from '../../../src/core/window.ts'
import type { BreakLine } from '../../../src/ledger/breaks.ts'
import { offerOlder } from '../../../src/plan/older-months.ts'
import { shippedDefinition } from '../../support/definitions.ts'

test.each<readonly [WindowSize, string, string, string]>([
  ['month', '2025-12-01', '2026-02-01', '2026-03-01'],
  ['week', '2025-12-29', '2026-02-09', '2026-02-16'],
  ['day', '2026-01-14', '2026-02-10', '2026-02-11'],
])('by %s the command asks for the first to the last older window', async (every, oldest, last, to) => {
  const shipped = await shippedDefinition('traffic_and_engagement')
  const definition = { ...shipped, window: { ...shipped.window, every } }
  const line = { startsOn: to, seenBackTo: to, columns: [], change: 0.2, oldest, last, olderUnits: '7', olderWindows: '7' }
  const offer = offerOlder(definition, line as unknown as BreakLine, 1)
  const [, first = '', end = ''] = / --from (\S+) --to (\S+) --force$/.exec(offer?.all.command ?? '') ?? []
  expect(inclusiveRange(first, end, every)).toEqual({ from: oldest, to })
})
