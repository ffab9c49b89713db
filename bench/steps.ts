// The steps of the benchmark, and which goals each of them measures.
import type { DatabaseClient } from '../src/db/connect.ts'
import type { GoalId } from './goals.ts'
import { measureFullWarehouse, measureGrowth } from './growth-rounds.ts'
import { measureNight } from './night.ts'
import { measurePacked, measureWide } from './packed.ts'
import { measurePlan } from './plan.ts'
import { measureRate, measureStatus, measureTiny, measureWalks } from './page-rounds.ts'
import type { Project } from './project.ts'
import { measureReports, measureWindows } from './report-rounds.ts'
import type { Results } from './results.ts'
import type { Sizes } from './sizes.ts'

export interface Step {
  readonly name: string
  readonly goals: readonly GoalId[]
  readonly measure: (project: Project, client: DatabaseClient, sizes: Sizes, results: Results) => Promise<void>
}

export const steps: readonly Step[] = [
  { name: 'status', goals: ['status'], measure: measureStatus },
  {
    name: 'reports',
    goals: ['filled', 'empty', 'unchanged', 'same-body', 'restated', 'backfill', 'memory'],
    measure: measureReports,
  },
  { name: 'windows', goals: ['months'], measure: measureWindows },
  { name: 'pages', goals: ['keywords', 'keywords-50ms'], measure: measureWalks },
  { name: 'tiny', goals: ['tiny', 'cost-units'], measure: measureTiny },
  { name: 'growth', goals: ['memory-growth', 'cost-rows'], measure: measureGrowth },
  { name: 'rate', goals: ['rate'], measure: measureRate },
  { name: 'warehouse', goals: ['full-warehouse'], measure: measureFullWarehouse },
  {
    name: 'plan',
    goals: ['price-time', 'price-requests'],
    measure: (_project, _client, sizes, results) => measurePlan(sizes, results),
  },
  {
    name: 'packed',
    goals: ['packed-reports', 'packed-credits', 'packed-wall', 'packed-memory', 'wide-memory'],
    measure: async (_project, _client, sizes, results) => {
      await measurePacked(sizes, results)
      await measureWide(results)
    },
  },
  {
    name: 'night',
    goals: [
      'night-reports',
      'night-walks',
      'night-memory',
      'night-requests',
      'night-status',
      'night-overview',
      'plan-reports',
      'plan-walks',
      'plan-memory',
    ],
    measure: (_project, _client, sizes, results) => measureNight(sizes, results),
  },
]
