// The program, loaded once, that runs one command line after the other: each has its arguments, environment, folder, output and exit code as a
// process of its own would. Started by warm-command.ts, which asks over the channel.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { launcher } from './command.ts'

/** One command line. */
export interface Order {
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly folder: string
}

/** How it ended. */
export interface Ending {
  readonly code: number
}

/** What it printed, piece by piece. */
export interface Told {
  readonly to: 'stdout' | 'stderr'
  readonly told: string
}

type Main = (argv: readonly string[]) => Promise<void>

const streams = { stdout: process.stdout, stderr: process.stderr }
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const loadMain = async (): Promise<Main> => {
  const root = join(dirname(launcher()), '..')
  const compiled = join(root, 'dist', 'src', 'cli', 'main.js')
  const path = existsSync(join(root, 'src')) ? join(root, 'src', 'cli', 'main.ts') : compiled
  const { main }: { main: Main } = await import(pathToFileURL(path).href)
  return main
}

const become = ({ args, environment, folder }: Order): void => {
  process.chdir(folder)
  for (const name of Object.keys(process.env)) delete process.env[name]
  for (const [name, value] of Object.entries(environment)) if (value !== undefined) process.env[name] = value
  process.argv = [process.argv[0] ?? '', launcherPath, ...args]
  process.exitCode = undefined
}

/** What is printed from here on goes over the channel; nothing reaches the real streams. */
const listen = (): void => {
  for (const to of ['stdout', 'stderr'] as const) {
    const write = (chunk: string | Uint8Array, ...rest: readonly unknown[]): boolean => {
      process.send?.({ to, told: typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString() } satisfies Told)
      const written = rest.at(-1)
      if (typeof written === 'function') written()
      return true
    }
    Object.assign(streams[to], { write })
  }
}

/** The exit code that the program ends its process with. */
const exitOf = (start: () => Promise<void>): Promise<number> =>
  new Promise((resolve, reject) => {
    const exit = (code?: number | string | null): void => resolve(Number(code ?? process.exitCode ?? 0))
    Object.assign(process, { exit })
    start().catch(reject)
  })

const perform = async (main: Main, order: Order): Promise<Ending> => {
  become(order)
  listen()
  const code = await exitOf(() => main(order.args))
  // A process that ends takes its listeners along.
  for (const signal of signals) process.removeAllListeners(signal)
  for (const stream of Object.values(streams)) stream.removeAllListeners('error')
  return { code }
}

const launcherPath = launcher()
const realExit = process.exit.bind(process)
const main = await loadMain()
process.once('disconnect', () => realExit(0))
process.on('message', (order: Order) => {
  perform(main, order).then(
    (ending) => process.send?.(ending),
    (error: unknown) => {
      process.send?.({ to: 'stderr', told: String(error instanceof Error ? error.stack : error) } satisfies Told)
      process.send?.({ code: 1 } satisfies Ending)
    },
  )
})
process.send?.('ready')
