// The process that runs the tests of one copy of the repository again and again, as run.ts sees it.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Order } from './session.ts'

export interface Session {
  /** True where every test passes in time. @param changed files of the copy that are others than before */
  passes(tests: readonly string[], changed: readonly string[], limitMs: number): Promise<boolean>
  end(): Promise<void>
}

/** A process that runs longer than the limit is killed with its workers, and the next order starts another. */
export const openSession = (copy: string, databaseUrl: string): Session => {
  let child: ChildProcess | null = null
  /** null: it is over. */
  const said = async (from: ChildProcess): Promise<unknown> => {
    const heard = new AbortController()
    const { signal } = heard
    const message = once(from, 'message', { signal }).then(([first]) => first)
    return Promise.race([message, once(from, 'exit', { signal }).then(() => null)]).finally(() => heard.abort())
  }
  const started = async (): Promise<ChildProcess> => {
    if (child?.connected === true) return child
    child = fork(join(copy, 'test', 'mutation', 'session.ts'), {
      cwd: copy,
      env: { ...process.env, TEST_DATABASE_URL: databaseUrl },
      stdio: 'ignore',
      detached: true,
    })
    if ((await said(child)) !== 'ready') throw new Error(`Vitest does not start in ${copy}`)
    return child
  }
  const kill = (): void => {
    if (child?.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    child = null
  }
  return {
    passes: async (tests, changed, limitMs) => {
      const running = await started()
      const timer = setTimeout(kill, limitMs)
      const order: Order = { tests, changed }
      running.send(order)
      const passed = await said(running)
      clearTimeout(timer)
      return passed === true
    },
    end: async () => {
      if (child === null) return
      const ended = new Promise((done) => child?.once('exit', done))
      child.disconnect()
      await ended
    },
  }
}
