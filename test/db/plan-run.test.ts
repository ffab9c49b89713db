// The order in which a run of several pipelines takes its units.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readSettings } from '../../src/config/env.ts'
import { silentLog } from '../../src/core/log.ts'
import { inclusiveRange } from '../../src/core/window.ts'
import { openRuntime } from '../../src/pipeline/open-runtime.ts'
import { planRun } from '../../src/pipeline/plan-run.ts'
import { createProgress } from '../../src/pipeline/progress.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'

test.each(['newest-first', 'oldest-first'] as const)(
  '%s holds over all pipelines: each window is a mixture of them',
  async (order) => {
    const home = mkdtempSync(join(tmpdir(), 'millrace-plan-'))
    const db = await createTestDatabase()
    const runtime = await openRuntime({
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
      const units = await planRun(runtime, runtime.definitions, { mode: 'range', rangeOf, force: false, only: null, order })
      const months = units.map(({ window }) => window.from)
      const sorted = months.toSorted()
      expect(months).toEqual(order === 'oldest-first' ? sorted : sorted.toReversed())
      for (const month of new Set(months)) {
        const pipelines = units.filter(({ window }) => window.from === month).map(({ pipeline }) => pipeline)
        expect(new Set(pipelines).size, month).toBe(runtime.definitions.length)
      }
    } finally {
      await runtime.close()
      await db.drop()
      rmSync(home, { recursive: true, force: true })
    }
  },
)
