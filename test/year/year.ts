// A year of nights, hour by hour: two schedulers keep time, the service publishes, settles and restates, things go wrong, nights are missed.
import { notify } from '../../src/schedule/notify/send-alarms.ts'
import type { OpenRuntime } from '../../src/run/open-runtime.ts'
import { createTicker } from '../../src/schedule/ticker.ts'
import type { YearWorld } from './world.ts'

const hourMs = 3_600_000
/** Hours between looks at what is late and what could not be sent; the real scheduler looks every minute. */
const tellEveryHours = 6

/** No scheduler runs in between: three nights of each pipeline, the one of publication first. */
export const outage = { from: '2026-08-09T12:00:00Z', to: '2026-08-12T12:00:00Z' } as const

/** Nothing but errors from the service; a night without a report to buy, so that keywords alone notice. */
export const failingNight = { from: '2026-09-20T12:00:00Z', to: '2026-09-21T12:00:00Z' } as const

interface Happening {
  readonly at: string
  readonly act: (world: YearWorld) => void
}

/** Every other change, publication and the settling of volumes, comes from the service's calendar. */
export const restatements = [
  { at: '2026-03-20T12:00:00Z', month: '2026-02' },
  { at: '2026-05-12T12:00:00Z', month: '2026-04' },
  { at: '2026-08-20T12:00:00Z', month: '2026-07' },
  { at: '2026-10-05T12:00:00Z', month: '2026-08' },
] as const

const happenings: readonly Happening[] = [
  ...restatements.map(({ at, month }) => ({
    at,
    act: ({ sandbox }: YearWorld): void => sandbox.restate(month),
  })),
  {
    at: '2026-09-09T12:00:00Z',
    act: ({ sandbox }: YearWorld): void => sandbox.configure({ csv: { extraColumn: true } }),
  },
  {
    at: '2026-09-12T12:00:00Z',
    act: ({ sandbox }: YearWorld): void => sandbox.configure({ csv: { extraColumn: false } }),
  },
  {
    at: failingNight.from,
    act: ({ sandbox }: YearWorld): void => sandbox.configure({ faults: [{ kind: 'status-500', on: 'any' }] }),
  },
  {
    at: failingNight.to,
    act: ({ sandbox }: YearWorld): void => sandbox.configure({ faults: [] }),
  },
].toSorted((left, right) => (left.at < right.at ? -1 : 1))

/** Lives from the world's start to its end. @param progress told the simulated day. */
export const liveThroughYear = async (world: YearWorld, progress: (day: string) => void = () => undefined): Promise<void> => {
  const coming = happenings.filter(({ at }) => Date.parse(at) >= world.startMs)
  for (const life of [
    { from: null, to: Date.parse(outage.from) },
    { from: Date.parse(outage.to), to: world.endMs },
  ]) {
    if (life.from !== null) await world.clock.moveTo(life.from)
    const runtime = await world.open()
    try {
      await keepTime(world, runtime, life.to, coming, progress)
    } finally {
      await runtime.close()
    }
  }
}

const keepTime = async (
  world: YearWorld,
  runtime: OpenRuntime,
  untilMs: number,
  coming: Happening[],
  progress: (day: string) => void,
): Promise<void> => {
  const { signal } = new AbortController()
  // Two, as on two machines: each tick must happen once all the same. What one has taken and not planned yet, the other must not take for its own.
  const other = { ...runtime, process: { ...runtime.process, name: `${runtime.process.name} b` } }
  const tickers = [createTicker(runtime, signal), createTicker(other, signal)]
  const settled = (): Promise<unknown> => Promise.all(tickers.map((ticker) => ticker.settled()))
  for (const ticker of tickers) await ticker.catchUp()
  await settled()
  for (let at = nextHour(world.clock.now()), hour = 0; at <= untilMs; at += hourMs, hour += 1) {
    // A night's work may have taken longer than to the hour.
    if (at > world.clock.now()) await world.clock.moveTo(at)
    while ((coming[0]?.at ?? '9') <= new Date(at).toISOString()) coming.shift()?.act(world)
    for (const ticker of tickers) ticker.sweep()
    await settled()
    if (hour % tellEveryHours === 0) await notify(runtime)
    if (hour % 24 === 0) progress(new Date(at).toISOString().slice(0, 10))
  }
}

const nextHour = (ms: number): number => Math.floor(ms / hourMs) * hourMs + hourMs
