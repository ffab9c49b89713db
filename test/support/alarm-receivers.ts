// Receivers of alarms as they are: an HTTP server that keeps what it gets and may be away, and an SMTP server.
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SMTPServer } from 'smtp-server'

export interface ReceivedPost {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface HttpReceiver {
  readonly url: string
  readonly received: ReceivedPost[]
  /** The status it answers with; null: it takes the message and never answers. */
  answer: number | null
  close(): Promise<void>
}

const portOf = (server: { address(): AddressInfo | string | null }): number => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

export const startHttpReceiver = async (): Promise<HttpReceiver> => {
  const received: ReceivedPost[] = []
  const server: Server = createServer((request, reply) => {
    let body = ''
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString('utf8')
    })
    request.on('end', () => {
      received.push({ path: request.url ?? '', headers: request.headers, body })
      if (receiver.answer !== null) reply.writeHead(receiver.answer).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const receiver: HttpReceiver = {
    url: `http://127.0.0.1:${portOf(server)}`,
    received,
    answer: 200,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return receiver
}

export interface ReceivedMail {
  readonly from: string
  readonly to: readonly string[]
  /** Header and text as they came. */
  readonly text: string
}

export interface MailReceiver {
  readonly port: number
  readonly mails: ReceivedMail[]
  /** Addresses that are refused, each with its code. */
  readonly refused: Map<string, number>
  close(): Promise<void>
}

/** Takes mail of `user` with `password`. @param port 0: any free one */
export const startMailReceiver = async (user: string, password: string, port = 0): Promise<MailReceiver> => {
  const mails: ReceivedMail[] = []
  const refused = new Map<string, number>()
  const server = new SMTPServer({
    authOptional: false,
    allowInsecureAuth: true,
    disabledCommands: ['STARTTLS'],
    onAuth: (given, _session, done) =>
      given.username === user && given.password === password ? done(null, { user }) : done(new Error('wrong password')),
    onRcptTo: ({ address }, _session, done) => {
      const responseCode = refused.get(address)
      done(responseCode === undefined ? null : Object.assign(new Error('no such mailbox'), { responseCode }))
    },
    onData: (stream, session, done) => {
      let text = ''
      stream.on('data', (chunk: Buffer) => {
        text += chunk.toString('utf8')
      })
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        mails.push({ from: mailFrom === false ? '' : mailFrom.address, to: rcptTo.map(({ address }) => address), text })
        done()
      })
    },
  })
  server.on('error', () => undefined)
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  return {
    port: portOf(server.server),
    mails,
    refused,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}
