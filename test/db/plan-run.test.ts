// The order in which a run of several pipelines takes its units.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readSettings } from '../../src/core/env.ts'
import { silentLog } from '../../src/core/log.ts'
import { inclusiveRange } from '../../src/core/window.ts'
import { openShop } from '../../src/run/open-shop.ts'
import { planRun } from '../../src/run/plan-run.ts'
import { createProgress } from '../../src/run/progress.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'

test.each(['newest-first', 'oldest-first'] as const)(
  '%s holds over all pipelines: each window is a mixture of them',
  async (order) => {
    const home = mkdtempSync(join(tmpdir(), 'millrace-plan-'))
    const db = await createTestDatabase()
    const shop = await openShop({
      settings: readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: home }, home),
      pipelinesFolder: pipelinesOfRepository,
      pipelines: [],
      callsService: false,
      usesLanding: false,
      progress: createProgress(),
      log: silentLog,
    })
    try {
      const rangeOf = () => inclusiveRange('2026-01', '2026-03', 'month')
      const units = await planRun(shop, shop.definitions, { mode: 'range', rangeOf, force: false, only: null, order })
      const months = units.map(({ window }) => window.from)
      const sorted = months.toSorted()
      expect(months).toEqual(order === 'oldest-first' ? sorted : sorted.toReversed())
      for (const month of new Set(months)) {
        const pipelines = units.filter(({ window }) => window.from === month).map(({ pipeline }) => pipeline)
        expect(new Set(pipelines).size, month).toBe(shop.definitions.length)
      }
    } finally {
      await shop.close()
      await db.drop()
      rmSync(home, { recursive: true, force: true })
    }
  },
)
