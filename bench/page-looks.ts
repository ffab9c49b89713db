// How long the status page takes over the ledger of a night: the overview and a search, asked for many times, the first ones after the start included.
import { startCommand } from '../test/support/command.ts'
import type { NightWorld } from './night-world.ts'
import { median, percentile } from './results.ts'

const looks = 60

const places = {
  overview: { path: '/', shows: 'units loaded' },
  search: { path: '/search?q=site00', shows: 'Slices that begin with' },
} as const

/** Milliseconds from the request to the last byte, by place. */
export interface PageLooks {
  readonly milliseconds: Readonly<Record<keyof typeof places, readonly number[]>>
  /** Of the place that is slower. */
  readonly p95: number
}

/** Throws where a page does not answer, or does not show what it is for. */
export const lookAtPages = async ({ folder, environment }: NightWorld): Promise<PageLooks> => {
  const serving = startCommand(['status', '--serve', '--json'], environment, folder)
  try {
    const url = await printed(serving, /"event":"status_page","url":"([^"]+)"/)
    const milliseconds = { overview: await look(url, places.overview), search: await look(url, places.search) }
    return { milliseconds, p95: Math.max(...Object.values(milliseconds).map((all) => percentile(all, 0.95))) }
  } finally {
    serving.child.kill('SIGINT')
    await serving.result
  }
}

const look = async (url: string, { path, shows }: (typeof places)[keyof typeof places]): Promise<number[]> => {
  const all: number[] = []
  for (let number = 0; number < looks; number += 1) {
    const started = performance.now()
    const answer = await fetch(new URL(path, url))
    const text = await answer.text()
    all.push(performance.now() - started)
    if (!answer.ok || !text.includes(shows)) throw new Error(`${path} answers ${answer.status}: ${text}`)
  }
  return all
}

/** `overview 31 ms, 95th percentile 44 ms, slowest 120 ms; search …` */
export const pageText = ({ milliseconds }: PageLooks): string =>
  Object.entries(milliseconds)
    .map(([place, all]) => {
      const [middle, p95, slowest] = [median(all), percentile(all, 0.95), Math.max(...all)].map((ms) => `${Math.round(ms)} ms`)
      return `${place}: median ${middle}, 95th percentile ${p95}, slowest of ${all.length} ${slowest}`
    })
    .join('; ')

/** What the command printed that fits, as soon as it has. Throws with all it printed when it ends first. */
export const printed = async (running: ReturnType<typeof startCommand>, pattern: RegExp): Promise<string> => {
  for (;;) {
    const found = pattern.exec(running.printed())
    if (found !== null) return found[1] ?? found[0]
    if (running.child.exitCode !== null) throw new Error(running.printed())
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
