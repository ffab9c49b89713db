// A PostgreSQL of a test's own that can be killed and started again on its port, as after a power cut.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbedded, startServer } from '../../src/db/embedded.ts'
import { readPostmaster, serverFiles } from '../../src/db/embedded-data.ts'
import { serverUser } from '../../src/db/embedded-program.ts'

export interface OwnServer {
  readonly url: string
  /** SIGKILL to the postmaster; its backends find out by themselves. */
  kill(): void
  /** Signals every process of it at once: SIGKILL is a crash, SIGSTOP a server that hangs until SIGCONT. */
  signalAll(signal: NodeJS.Signals): void
  /** Starts it again; resolves when it answers. */
  restart(): Promise<void>
  remove(): Promise<void>
}

export const startOwnServer = async (): Promise<OwnServer> => {
  const home = mkdtempSync(join(tmpdir(), 'millrace-own-server-'))
  const server = await startEmbedded(home)
  const files = serverFiles(home)
  return {
    url: server.url.reveal(),
    kill: () => {
      const running = readPostmaster(files)
      if (running !== null) process.kill(running.pid, 'SIGKILL')
    },
    signalAll: (signal) => {
      const running = readPostmaster(files)
      if (running === null) return
      const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === running.pid)
      for (const id of [running.pid, ...children]) process.kill(Number(id), signal)
    },
    restart: async () => {
      for (let attempt = 1; ; attempt += 1) {
        const failure = await startServer(files, serverUser(), server.port)
        if (failure === null) return
        // Backends of the killed one notice a moment later that it is gone.
        if (attempt >= 50) throw new Error(failure)
        rmSync(files.pidFile, { force: true })
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
    },
    remove: async () => {
      await server.release()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** Of a process; 0 where it is over. */
const parentOf = (id: string): number => {
  try {
    return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
