// Keyword walks and tiny units: many small requests instead of one large body.
import type { DatabaseClient } from '../src/db/connect.ts'
import { fetchAll, keywordFloor } from './floor.ts'
import { runMeasured } from './measured-command.ts'
import { serverProcessor } from './processor.ts'
import { forget, type Project } from './project.ts'
import { exponentOf, median, type Results } from './results.ts'
import type { Sizes } from './sizes.ts'

const perPage = 100
const oneMonth = ['--from', '2026-01', '--to', '2026-01']

const walk = async (project: Project, client: DatabaseClient, pages: number, delayMs: number) => {
  await forget(project, 'pages')
  await project.service.tell({ do: 'keywords', pages, perPage, delayMs, requestsPerSecond: null })
  const floor = await keywordFloor(client, (page) => `${project.service.url}/keywords?offset=${page * perPage}`, pages)
  const only = ['--only', 'domain=domain-00000.example.com']
  const ours = await runMeasured(project, ['backfill', 'pages', ...oneMonth, ...only], { 'rows.inserted': pages * perPage })
  process.stderr.write(`  ${pages} pages at ${delayMs} ms: floor ${floor.toFixed(2)} s, Millrace ${ours.seconds.toFixed(2)} s\n`)
  return { floor, ours: ours.seconds }
}

export const measureWalks = async (project: Project, client: DatabaseClient, sizes: Sizes, results: Results): Promise<void> => {
  for (const [id, delayMs] of [
    ['keywords', 0],
    ['keywords-50ms', 50],
  ] as const) {
    const rounds: { floor: number; ours: number }[] = []
    for (let number = 1; number <= sizes.rounds; number += 1) rounds.push(await walk(project, client, sizes.pages, delayMs))
    const [floor, ours] = [median(rounds.map((one) => one.floor)), median(rounds.map((one) => one.ours))]
    results.set(id, { value: ours / floor, floor, ours })
  }
}

/** The service counts over any sliding second and refuses the eleventh. */
export const measureRate = async (project: Project, _client: DatabaseClient, sizes: Sizes, results: Results): Promise<void> => {
  await forget(project, 'pages')
  await project.service.tell({ do: 'keywords', pages: sizes.ratePages, perPage, delayMs: 0, requestsPerSecond: 10 })
  await runMeasured(
    project,
    ['backfill', 'pages', ...oneMonth],
    { 'rows.inserted': sizes.ratePages * perPage },
    { WEB_ANALYTICS_REQUESTS_PER_SECOND: '10' },
  )
  const { arrivals = [], refused = 0 } = await project.service.tell({ do: 'arrivals' })
  const seconds = ((arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0)) / 1000
  const value = (arrivals.length - 1) / seconds / 10
  results.set('rate', { value: refused > 0 ? 0 : value, ours: seconds, note: `${refused} answers 429` })
}

/** Wall time of the command without the requests' own, by unit; and how it grows with the units. */
export const measureTiny = async (project: Project, client: DatabaseClient, sizes: Sizes, results: Results): Promise<void> => {
  const server = await serverProcessor(client)
  await project.service.tell({ do: 'keywords', pages: 1, perPage: 10, delayMs: 0, requestsPerSecond: null })
  const points: [number, number][] = []
  for (const units of sizes.units) {
    const perUnit: number[] = []
    const whole: number[] = []
    const used: number[] = []
    for (let number = 1; number <= Math.min(3, sizes.rounds); number += 1) {
      await forget(project, `tiny_${units}`)
      const started = performance.now()
      await fetchAll(() => `${project.service.url}/keywords?offset=0`, units)
      const requests = (performance.now() - started) / 1000
      const before = server() ?? Number.NaN
      const ours = await runMeasured(project, ['backfill', `tiny_${units}`, ...oneMonth], { 'units.loaded': units })
      used.push((server() ?? Number.NaN) - before + (ours.processorSeconds ?? Number.NaN))
      perUnit.push(((ours.seconds - requests) / units) * 1000)
      whole.push(ours.seconds)
    }
    process.stderr.write(`  ${units} tiny units: ${median(perUnit).toFixed(2)} ms each, ${median(whole).toFixed(2)} s in all\n`)
    points.push([units, median(whole)])
    const note = `${units} units, start included; processor ${((median(used) / units) * 1000).toFixed(1)} ms a unit`
    results.set('tiny', { value: median(perUnit), ours: median(whole), note })
  }
  const list = points.map(([units, seconds]) => `${units}: ${seconds.toFixed(2)} s`).join(', ')
  results.set('cost-units', { value: exponentOf(points), note: list })
}

export const measureStatus = async (
  project: Project,
  _client: DatabaseClient,
  { rounds }: Sizes,
  results: Results,
): Promise<void> => {
  const seconds: number[] = []
  for (let number = 0; number < Math.max(5, rounds); number += 1)
    seconds.push((await runMeasured(project, ['status'], {})).seconds)
  results.set('status', { value: median(seconds), ours: median(seconds) })
}
