// Commands as a person starts them: whole, killed, or with a reader that goes away; each with a bound in time.
import { spawn } from 'node:child_process'
import { cleanEnvironment, launcher, type Summary } from '../support/command.ts'
import type { World } from './world.ts'

export interface Ended {
  readonly name: string
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  readonly summary: Summary | null
  readonly seconds: number
  /** It had to be killed because it did not end. */
  readonly hung: boolean
}

export interface Started {
  readonly name: string
  readonly pid: number
  readonly ended: Promise<Ended>
  printed(): string
  signal(signal: NodeJS.Signals): void
}

export interface StartOptions {
  /** Name in the sandbox's books; default: the command's first word. */
  readonly caller?: string
  /** `closed`: standard output goes to `head -2`, which leaves. */
  readonly pipe?: 'whole' | 'closed'
  /** Seconds after which it is said to hang, on a machine that has nothing else to do. */
  readonly bound?: number
  readonly environment?: Readonly<Record<string, string>>
  /** A program that starts the command its arguments name, such as one that gives it a machine of its own. */
  readonly within?: readonly string[]
}

/** `"$@" | head -2` in a real shell that outlives its children: Node.js gives children sockets, which end otherwise than pipes. */
const closing = ['-c', 'trap "" TERM INT; "$@" 2>&3 | head -2; exit $PIPESTATUS', 'bash']

/** How many times as long as on an idle machine a command may take before it is said to hang: whole runs beside other work set it. */
const patience = Number(process.env['MILLRACE_TEST_PATIENCE'] ?? 1)

export const start = (world: World, args: readonly string[], options: StartOptions = {}): Started => {
  const began = performance.now()
  const name = args.filter((word) => word !== '--json').join(' ')
  const command = [process.execPath, launcher(), ...args]
  const [file = '', ...rest] = [...(options.within ?? []), ...(options.pipe === 'closed' ? ['bash', ...closing] : []), ...command]
  const child = spawn(file, rest, {
    cwd: world.folder,
    env: cleanEnvironment({ ...world.environment(options.caller ?? args[0] ?? 'command'), ...options.environment }),
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    // A group of its own, so that what hangs below a shell can be ended too.
    detached: true,
  })
  let stdout = ''
  let stderr = ''
  let hung = false
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
  })
  for (const stream of [child.stderr, child.stdio[3]])
    stream?.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
  const watch = setTimeout(
    () => {
      hung = true
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    },
    (options.bound ?? 90) * patience * 1000,
  )
  const ended = new Promise<Ended>((done) => {
    child.on('close', (code, signal) => {
      clearTimeout(watch)
      const seconds = (performance.now() - began) / 1000
      done({ name, code, signal, stdout, stderr, summary: summaryIn(stdout), seconds, hung })
    })
  })
  return {
    name,
    pid: child.pid ?? 0,
    ended,
    printed: () => stdout + stderr,
    signal: (signal) => {
      if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) process.kill(-child.pid, signal)
    },
  }
}

export const run = (world: World, args: readonly string[], options: StartOptions = {}): Promise<Ended> =>
  start(world, args, options).ended

/** The end of what it complained about, without its progress. */
export const complaint = ({ stderr }: Pick<Ended, 'stderr'>): string =>
  stderr
    .split('\n')
    .filter((line) => line.trim() !== '' && !/ units, .* time left|^run \d+: |^ +at /.test(line))
    .slice(-6)
    .map((line) => line.slice(0, 600))
    .join('\n')

/** The closing line of a run's --json; null where it never came, or is another command's. */
const summaryIn = (stdout: string): Summary | null => {
  const line = stdout.trimEnd().split('\n').at(-1) ?? ''
  if (!line.startsWith('{"event":"summary"')) return null
  const found = JSON.parse(line) as Partial<Summary>
  return found.run_id === undefined || found.units === undefined ? null : (found as Summary)
}

export const wait = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))

/** False when it did not come within the time. */
export const until = async (holds: () => boolean | Promise<boolean>, seconds: number): Promise<boolean> => {
  for (const end = performance.now() + seconds * 1000; performance.now() < end; await wait(50)) if (await holds()) return true
  return false
}
