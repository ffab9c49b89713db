// Runs the real program's command lines in processes that have run others before: a start costs four times what most commands of a test do. For tests
// in which the process itself (its start, memory, pid) is not the subject; those use command.ts.
import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { type CommandResult, cleanEnvironment, eventsOf, launcher, launcherName } from './command.ts'
import type { Ending, Order, Told } from './warm-host.ts'

const isObject = (message: unknown): message is object => typeof message === 'object' && message !== null
const isEnding = (message: unknown): message is Ending => isObject(message) && 'code' in message
const isTold = (message: unknown): message is Told => isObject(message) && 'told' in message

const startHost = (): Promise<ChildProcess> =>
  new Promise((resolve, reject) => {
    const host = fork(join(import.meta.dirname, 'warm-host.ts'), [], {
      env: cleanEnvironment({ [launcherName]: launcher() }),
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    host.once('message', () => resolve(host))
    host.once('exit', (code) => reject(new Error(`the program did not load: exit ${code}`)))
  })

// A host that waits must not keep the test's process alive.
const hold = (host: ChildProcess): void => {
  host.ref()
  host.channel?.ref()
}
const letGo = (host: ChildProcess): void => {
  host.unref()
  host.channel?.unref()
}

export interface RunningWarm {
  readonly result: Promise<CommandResult>
  readonly pid: number
  /** Text printed so far. */
  printed(): string
  /** Takes the host along; what the command had printed is kept. Nothing where it is over. */
  kill(signal: NodeJS.Signals): void
}

export type StartWarm = (
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  folder: string,
) => Promise<RunningWarm>

export interface WarmPool {
  /** As `startCommand` of command.ts, in a process that is kept. */
  readonly start: StartWarm
  /** Ends the processes that wait; what they remember ends with them. */
  clear(): void
}

/** As many processes come to be as were ever needed at once. */
export const createWarmPool = (): WarmPool => {
  let idle: ChildProcess[] = []
  const start: StartWarm = async (args, environment, folder) => {
    const host = idle.pop() ?? (await startKept())
    return performIn(host, { args, environment: cleanEnvironment(environment), folder }, () => {
      letGo(host)
      idle.push(host)
    })
  }
  const startKept = async (): Promise<ChildProcess> => {
    const host = await startHost()
    host.once('exit', () => {
      idle = idle.filter((one) => one !== host)
    })
    return host
  }
  const clear = (): void => {
    for (const host of idle) host.kill('SIGKILL')
    idle = []
  }
  return { start, clear }
}

/** @param release the host waits for another order */
const performIn = (host: ChildProcess, order: Order, release: () => void): RunningWarm => {
  hold(host)
  const told = { stdout: '', stderr: '' }
  let [signalled, isOver] = [false, false]
  const result = new Promise<CommandResult>((resolve) => {
    const listen = (message: unknown): void => {
      if (isTold(message)) told[message.to] += message.told
      if (!isEnding(message)) return
      isOver = true
      host.off('exit', died)
      host.off('message', listen)
      // What it still does after a signal must not meet the next command.
      if (signalled) host.kill('SIGKILL')
      else release()
      resolve({ code: message.code, signal: null, ...told, events: eventsOf(told.stdout) })
    }
    const died = (_: number | null, signal: NodeJS.Signals | null): void => resolve({ code: null, signal, ...told, events: [] })
    host.on('message', listen)
    host.once('exit', died)
    host.send(order)
  })
  const kill = (signal: NodeJS.Signals): void => {
    if (isOver) return
    signalled = true
    host.kill(signal)
  }
  return { result, pid: host.pid ?? 0, printed: () => told.stdout + told.stderr, kill }
}

const shared = createWarmPool()

/** As `runCommand` of command.ts, in a process that is kept. Throws where the command took the process along. */
export const runWarm = async (
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  folder: string,
): Promise<CommandResult> => {
  const ended = await (await shared.start(args, environment, folder)).result
  if (ended.code === null) throw new Error(`${args.join(' ')} took its process along: ${ended.signal ?? 'it exited'}`)
  return ended
}
