// A TCP proxy in front of PostgreSQL that can cut, fall silent without closing, lose the answer to a COMMIT, or hold back what comes after one.
import { connect, createServer, type Server, type Socket } from 'node:net'

export interface TcpProxy {
  /** The target's address with the proxy's port. */
  readonly url: string
  /** From now on nothing is passed on and nothing is closed, also on new connections, as behind a router that lost its table. */
  fallSilent(): void
  /** The connections that are open now fall silent; new ones work. */
  silenceOpen(): void
  /** Waits so long after each piece from the client, as a narrow line does; 0: no more. */
  narrow(ms: number): void
  /** Resets every connection, also new ones, as where the server is stopped. */
  refuse(): void
  /** Passes on again; what was silenced stays so. */
  speak(): void
  /** Resets every connection. */
  cut(): void
  /** After the next COMMIT of a transaction that `wanted` recognises by its statements was passed on, its connection is reset unanswered. */
  loseCommit(wanted: (statements: string) => boolean): void
  /** After the next COMMIT of such a transaction nothing more of its connection is passed on to the server until `release`. Resolves once that was answered. */
  holdAfterCommit(wanted: (statements: string) => boolean): Promise<void>
  /** The same after the next statement of that kind, which is still under way then: a COPY waits for its rows. */
  holdAfterStatement(wanted: (statement: string) => boolean): Promise<void>
  /** Passes on what was held back. */
  release(): void
  /** COMMITs whose answer was lost. */
  readonly lostCommits: () => number
  close(): Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly server: Socket
  silent: boolean
  statements: string
  /** What waits for `release`; null: nothing is held back. */
  held: Buffer[] | null
}

/** From where on nothing is passed on. */
interface Holding {
  readonly wanted: (statements: string) => boolean
  readonly answered: () => void
}

/** Most of a transaction's statements that is remembered. */
const rememberedBytes = 200_000

export const startTcpProxy = async (target: string): Promise<TcpProxy> => {
  const address = new URL(target)
  const pairs = new Set<Pair>()
  let silent = false
  let refuses = false
  let narrowMs = 0
  let wanted: ((statements: string) => boolean) | null = null
  let holding: Holding | null = null
  let holdingStatement: Holding | null = null
  let lost = 0
  const hold = (pair: Pair, answered: () => void): void => {
    pair.held = []
    pair.server.once('data', answered)
  }
  const toServer = (pair: Pair, chunk: Buffer): void => {
    if (pair.silent) return
    if (pair.held !== null) {
      pair.held.push(chunk)
      return
    }
    const text = chunk.toString('latin1')
    pair.statements = (pair.statements + text).slice(-rememberedBytes)
    const commits = /\0commit\0|Q....commit/i.test(text)
    const losing = commits && wanted?.(pair.statements) === true
    if (commits && holding?.wanted(pair.statements) === true) {
      hold(pair, holding.answered)
      holding = null
    } else if (holdingStatement?.wanted(text) === true) {
      hold(pair, holdingStatement.answered)
      holdingStatement = null
    }
    if (/begin/i.test(text) || commits) pair.statements = ''
    if (!losing) {
      pair.server.write(chunk)
      return
    }
    wanted = null
    lost += 1
    // The server has taken it once it answers; that answer goes nowhere.
    pair.silent = true
    pair.server.once('data', () => end(pair))
    pair.server.write(chunk)
  }
  const end = (pair: Pair): void => {
    pair.client.resetAndDestroy()
    pair.server.destroy()
    pairs.delete(pair)
  }
  /** Neither side learns that the other has ended, and what is sent is not taken either. */
  const silence = (pair: Pair): void => {
    pair.silent = true
    pair.client.pause()
    pair.server.pause()
  }
  const server: Server = createServer((client) => {
    const upstream = connect(Number(address.port), address.hostname)
    const pair: Pair = { client, server: upstream, silent, statements: '', held: null }
    pairs.add(pair)
    if (silent) silence(pair)
    if (refuses) end(pair)
    client.on('data', (chunk: Buffer) => {
      toServer(pair, chunk)
      if (narrowMs === 0 || pair.silent) return
      client.pause()
      setTimeout(() => pair.silent || client.resume(), narrowMs)
    })
    upstream.on('data', (chunk: Buffer) => pair.silent || client.write(chunk))
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.on('error', () => undefined)
      one.on('close', () => {
        if (pair.silent) return
        other.destroy()
        pairs.delete(pair)
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const bound = server.address()
  const url = new URL(target)
  url.port = typeof bound === 'object' && bound !== null ? String(bound.port) : ''
  const silenceOpen = (): void => {
    for (const pair of pairs) silence(pair)
  }
  const cut = (): void => {
    for (const pair of [...pairs]) end(pair)
  }
  return {
    url: url.href,
    fallSilent: () => {
      silent = true
      silenceOpen()
    },
    silenceOpen,
    narrow: (ms) => {
      narrowMs = ms
    },
    refuse: () => {
      refuses = true
      cut()
    },
    speak: () => {
      silent = false
      refuses = false
    },
    cut,
    loseCommit: (recognise) => {
      wanted = recognise
    },
    holdAfterCommit: (recognise) =>
      new Promise((answered) => {
        holding = { wanted: recognise, answered }
      }),
    holdAfterStatement: (recognise) =>
      new Promise((answered) => {
        holdingStatement = { wanted: recognise, answered }
      }),
    release: () => {
      for (const pair of pairs) {
        for (const chunk of pair.held ?? []) pair.server.write(chunk)
        pair.held = null
      }
    },
    lostCommits: () => lost,
    close: async () => {
      cut()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
