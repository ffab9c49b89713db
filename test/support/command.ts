// Runs the real command as a child process, as a person or a scheduler would.
import { type ChildProcess, spawn } from 'node:child_process'
import { join, resolve } from 'node:path'

/** Names the launcher to start instead of the checkout's own. */
export const launcherName = 'MILLRACE_TEST_LAUNCHER'

export const launcher = (): string => process.env[launcherName] ?? resolve(import.meta.dirname, '..', '..', 'bin', 'millrace.js')

export interface CommandResult {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  /** Objects printed with --json, in order. */
  readonly events: readonly Readonly<Record<string, unknown>>[]
}

export interface Summary {
  readonly run_id: number
  readonly units: Readonly<Record<'planned' | 'loaded' | 'unchanged' | 'waiting' | 'held' | 'failed', number>>
  readonly rows: Readonly<Record<'read' | 'inserted' | 'updated' | 'ended' | 'unchanged' | 'quarantined' | 'duplicates', number>>
  readonly requests: number
  readonly reports_submitted: number
  readonly quota_used: number
  readonly bytes: number
  readonly seconds: number
}

export interface RunningCommand {
  readonly child: ChildProcess
  readonly result: Promise<CommandResult>
  /** Text printed so far. */
  printed(): string
}

/** Environment of a child that knows nothing of the machine's own settings. */
export const cleanEnvironment = (extra: Readonly<Record<string, string>>): NodeJS.ProcessEnv => {
  const environment: NodeJS.ProcessEnv = {}
  for (const [name, value] of Object.entries(process.env)) {
    if (!/^(WEB_ANALYTICS_|DATABASE_URL|MILLRACE_|PG|NODE_OPTIONS|VITEST|AWS_)/.test(name)) environment[name] = value
  }
  return { ...environment, ...extra }
}

export const startCommand = (
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  folder: string,
): RunningCommand => {
  const child = spawn(process.execPath, [launcher(), ...args], {
    cwd: folder,
    env: cleanEnvironment(environment),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    stdout += chunk.toString()
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    stderr += chunk.toString()
  })
  const result = new Promise<CommandResult>((done) => {
    child.on('close', (code, signal) => done({ code, signal, stdout, stderr, events: eventsOf(stdout) }))
  })
  return { child, result, printed: () => stdout + stderr }
}

export const runCommand = (
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  folder: string,
): Promise<CommandResult> => startCommand(args, environment, folder).result

/** The lines of `stdout` that are JSON objects. */
export const eventsOf = (stdout: string): Record<string, unknown>[] =>
  stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line): Record<string, unknown> => JSON.parse(line))

/** The closing `{"event":"summary",…}`; throws with everything printed when there is none. */
export const summaryOf = (result: CommandResult): Summary => {
  const last = result.events.at(-1)
  if (last?.['event'] !== 'summary' || 'error' in last)
    throw new Error(`no summary (exit ${result.code}):\n${result.stdout}\n${result.stderr}`)
  return last as unknown as Summary
}

export const pipelinesOfRepository = join(import.meta.dirname, '..', '..', 'pipelines')
