// The real command as a child process: wall time from start to exit, peak memory, and its summary.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cleanEnvironment, launcher } from '../test/support/command.ts'
import { processorOf } from './processor.ts'
import type { Project } from './project.ts'

const memoryEveryMs = 25

export interface CommandRun {
  readonly seconds: number
  /** VmHWM; null where the system does not tell. */
  readonly peakMegabytes: number | null
  /** Processor time of the process, to within a few hundredths; null where the system does not tell. */
  readonly processorSeconds: number | null
  readonly counts: Readonly<Record<string, number>>
}

/** Most memory a living process has held, MB; null where the system does not tell. */
export const peakOf = (pid: number | undefined): number | null => {
  try {
    const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return kilobytes === undefined ? null : Number(kilobytes) / 1024
  } catch {
    return null
  }
}

/** Throws with everything printed unless it ends with 0 and `expected` holds of the summary's rows and units. */
export const runMeasured = async (
  { folder, environment }: Pick<Project, 'folder' | 'environment'>,
  args: readonly string[],
  expected: Readonly<Record<string, number>>,
  more: Readonly<Record<string, string>> = {},
): Promise<CommandRun> => {
  const started = performance.now()
  const extra = (process.env['BENCH_NODE_ARGS'] ?? '').split(' ').filter((word) => word !== '')
  const child = spawn(process.execPath, [...extra, launcher(), ...args, '--json'], {
    cwd: folder,
    env: cleanEnvironment({ ...environment, ...more }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  let peak: number | null = null
  let processor: number | null = null
  const watch = setInterval(() => {
    peak = peakOf(child.pid) ?? peak
    processor = processorOf(child.pid) ?? processor
  }, memoryEveryMs)
  const code = await new Promise<number | null>((done) => child.on('close', done))
  clearInterval(watch)
  const seconds = (performance.now() - started) / 1000
  const counts = countsOf(printed)
  for (const [name, value] of Object.entries(expected)) {
    if (counts[name] !== value)
      throw new Error(`${args.join(' ')}: ${name} is ${counts[name]}, expected ${value}\n${printed}${said}`)
  }
  if (code !== 0) throw new Error(`${args.join(' ')}: exit ${code}\n${printed}${said}`)
  return { seconds, peakMegabytes: peak, processorSeconds: processor, counts }
}

/** Numbers of the summary by name; those of `units` and `rows` under their own. */
const countsOf = (printed: string): Record<string, number> => {
  const counts: Record<string, number> = {}
  const take = (value: object, prefix: string): void => {
    for (const [name, inner] of Object.entries(value)) {
      if (typeof inner === 'number') counts[prefix + name] = inner
      else if (typeof inner === 'object' && inner !== null && !Array.isArray(inner)) take(inner, `${name}.`)
    }
  }
  const last = printed.trim().split('\n').at(-1) ?? ''
  if (last.startsWith('{')) take(JSON.parse(last), '')
  return counts
}
