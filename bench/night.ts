// A night in which nothing is new, over a ledger of millions of loaded units; what is said of it; and the planning of a million new ones.
import { startCommand } from '../test/support/command.ts'
import { openDefinitions } from '../src/run/open-runtime.ts'
import { join } from 'node:path'
import type { GoalId } from './goals.ts'
import { peakOf, runMeasured } from './measured-command.ts'
import { fillLedger, type TableSize, tableSizes } from './night-ledger.ts'
import { type NightWorld, openNightWorld } from './night-world.ts'
import { lookAtPages, type PageLooks, pageText, printed } from './page-looks.ts'
import { median, type Results } from './results.ts'
import type { Sizes } from './sizes.ts'
import { addWindows } from '../src/core/window.ts'

const months = 36
const countries = ['us', 'gb', 'world']
const looks = 5

const kinds = {
  reports: { pipeline: 'traffic_and_engagement', run: 'night-reports', plan: 'plan-reports' },
  walks: { pipeline: 'keywords', run: 'night-walks', plan: 'plan-walks' },
} as const satisfies Readonly<Record<string, { pipeline: string; run: GoalId; plan: GoalId }>>

interface Night {
  readonly seconds: readonly number[]
  readonly peak: number
  readonly requests: number
  readonly status: readonly number[]
  readonly pages: PageLooks
  readonly sizes: readonly TableSize[]
  readonly planned: Planned
}

/** Reports first, then walks with an answer each: two ledgers, one after the other. */
export const measureNight = async (sizes: Pick<Sizes, 'nightUnits' | 'newUnits'>, results: Results): Promise<void> => {
  const nights: Night[] = []
  for (const [name, { pipeline, run, plan }] of Object.entries(kinds)) {
    const domains = Math.ceil(sizes.nightUnits / months / countries.length)
    const world = await openNightWorld({ pipeline, domains, countries, months })
    try {
      const night = await measureKind(world, pipeline, sizes.newUnits)
      nights.push(night)
      const { planned } = night
      const units = `${domains * months * countries.length} units`
      results.set(run, {
        value: median(night.seconds),
        ours: median(night.seconds),
        note: `${units}; ${night.sizes.map(sizeText).join(', ')}`,
      })
      results.set(plan, { value: planned.seconds, ours: planned.seconds, note: `${planned.units} units over ${units}` })
    } finally {
      await world.close()
    }
    process.stderr.write(`  ${name} done\n`)
  }
  const most = (pick: (night: Night) => number): number => Math.max(...nights.map(pick))
  const each = (pick: (night: Night) => string): string => nights.map(pick).join(', then ')
  results.set('night-memory', { value: most(({ peak }) => peak), note: each(({ peak }) => `${Math.round(peak)} MB`) })
  results.set('night-requests', { value: most(({ requests }) => requests), note: each(({ requests }) => `${requests}`) })
  results.set('night-status', {
    value: most(({ status }) => median(status)),
    note: each(({ status }) => `${median(status).toFixed(2)} s`),
  })
  results.set('night-overview', {
    value: most(({ pages }) => pages.p95),
    note: each(({ pages }) => pageText(pages)),
  })
  results.set('plan-memory', {
    value: most(({ planned }) => planned.peak),
    note: each(({ planned }) => `${Math.round(planned.peak)} MB`),
  })
}

const sizeText = ({ table, rows, megabytes, indexMegabytes }: TableSize): string =>
  `${table} ${Math.round(rows)} rows ${Math.round(megabytes)} MB + indexes ${Math.round(indexMegabytes)} MB`

const measureKind = async (world: NightWorld, pipeline: string, newUnits: number): Promise<Night> => {
  const started = performance.now()
  const { definitions, sources } = await openDefinitions(join(world.folder, 'pipelines'), [])
  const definition = definitions.find((one) => one.pipeline === pipeline)
  const source = sources.get(definition?.source ?? '')
  if (definition === undefined || source === undefined) throw new Error(`no definition of ${pipeline}`)
  await fillLedger(world, definition, source)
  const sizes = await tableSizes(world)
  process.stderr.write(`  ${pipeline}: filled in ${since(started)} s\n${sizes.map((one) => `    ${sizeText(one)}\n`).join('')}`)
  // Closes the windows, as the night after a backfill does.
  const closing = await runMeasured(world, ['run'], { 'units.loaded': 0 })
  process.stderr.write(`  closing: ${closing.seconds.toFixed(2)} s, ${Math.round(closing.peakMegabytes ?? 0)} MB\n`)
  const runs = []
  const before = world.sandbox.books().requests.length
  for (let number = 0; number < looks; number += 1) runs.push(await runMeasured(world, ['run'], { 'units.loaded': 0 }))
  const requests = (world.sandbox.books().requests.length - before) / looks
  const seconds = runs.map((run) => run.seconds)
  const peak = Math.max(...runs.map((run) => run.peakMegabytes ?? 0))
  process.stderr.write(
    `  nothing new: ${seconds.map((one) => one.toFixed(2)).join(', ')} s, ${Math.round(peak)} MB, ${requests} requests\n`,
  )
  const status: number[] = []
  for (let number = 0; number < looks; number += 1) status.push((await runMeasured(world, ['status'], {})).seconds)
  process.stderr.write(`  status: ${status.map((one) => one.toFixed(2)).join(', ')} s\n`)
  const pages = await lookAtPages(world)
  process.stderr.write(`  page: ${pageText(pages)}\n`)
  const planned = await planNew(world, pipeline, newUnits)
  process.stderr.write(`  planning ${planned.units}: ${planned.seconds.toFixed(2)} s, ${Math.round(planned.peak)} MB\n`)
  return { seconds, peak, requests, status, pages, sizes, planned }
}

const since = (started: number): string => ((performance.now() - started) / 1000).toFixed(0)

interface Planned {
  readonly seconds: number
  readonly peak: number
  readonly units: number
}

/** A backfill of months before the first one, stopped as soon as it is planned: from its start until it says so. */
const planNew = async (world: NightWorld, pipeline: string, newUnits: number): Promise<Planned> => {
  const [first = ''] = world.months
  const { rows } = await world.database.pool.query<{ n: number }>('select count(*)::float8 as n from etl.slices')
  const count = Math.ceil(newUnits / (rows[0]?.n ?? 1))
  const [from, to] = [-count, -1].map((months) => addWindows(`${first}-01`, 'month', months).slice(0, 7))
  const started = performance.now()
  const planning = startCommand(
    ['backfill', pipeline, '--from', from ?? '', '--to', to ?? '', '--json'],
    world.environment,
    world.folder,
  )
  let peak = 0
  const watch = setInterval(() => (peak = peakOf(planning.child.pid) ?? peak), 25)
  try {
    const units = Number(await printed(planning, /"event":"planned".*"units":(\d+)/))
    return { seconds: (performance.now() - started) / 1000, peak, units }
  } finally {
    clearInterval(watch)
    planning.child.kill('SIGINT')
    await planning.result
  }
}
