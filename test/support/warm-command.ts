// Runs the real program's command lines in processes that have run others before: a start costs four times what most commands of a test do. For tests
// in which the process itself (its start, signals, memory, pid) is not the subject; those use command.ts.
import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { type CommandResult, cleanEnvironment, eventsOf, launcher, launcherName } from './command.ts'
import type { Ending, Order } from './warm-host.ts'

/** Hosts that wait for a command line; as many come to be as were ever needed at once. */
const idle: ChildProcess[] = []

const isEnding = (message: unknown): message is Ending => typeof message === 'object' && message !== null && 'code' in message

const startHost = (): Promise<ChildProcess> =>
  new Promise((resolve, reject) => {
    const host = fork(join(import.meta.dirname, 'warm-host.ts'), [], {
      env: cleanEnvironment({ [launcherName]: launcher() }),
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    host.once('message', () => resolve(host))
    host.once('exit', (code) => {
      reject(new Error(`the program did not load: exit ${code}`))
      const at = idle.indexOf(host)
      if (at >= 0) idle.splice(at, 1)
    })
  })

const ask = (host: ChildProcess, order: Order): Promise<Ending> =>
  new Promise((resolve, reject) => {
    const died = (code: number | null): void => reject(new Error(`${order.args.join(' ')} took its process along: exit ${code}`))
    host.once('exit', died)
    host.once('message', (message: unknown) => {
      host.off('exit', died)
      if (isEnding(message)) resolve(message)
      else reject(new Error('a host answered something else than an ending'))
    })
    host.send(order)
  })

// A host that waits must not keep the test's process alive.
const hold = (host: ChildProcess): void => {
  host.ref()
  host.channel?.ref()
}
const release = (host: ChildProcess): void => {
  host.unref()
  host.channel?.unref()
  idle.push(host)
}

/** As `runCommand` of command.ts, in a process that is kept. */
export const runWarm = async (
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
  folder: string,
): Promise<CommandResult> => {
  const host = idle.pop() ?? (await startHost())
  hold(host)
  const { code, stdout, stderr } = await ask(host, { args, environment: cleanEnvironment(environment), folder })
  release(host)
  return { code, signal: null, stdout, stderr, events: eventsOf(stdout) }
}
