// The sandbox behind a service that says the key back: somewhere in each answer, in a value, a field's name or a header, in whatever spelling JSON, CSV and
// addresses know.
import { createServer, type IncomingMessage } from 'node:http'

export interface EchoingService {
  readonly url: string
  /** Places where it said the key. */
  readonly said: string[]
  close(): Promise<void>
}

export type Random = () => number

/** The same numbers for the same seed (mulberry32). */
export const seeded = (seed: number): Random => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

export const pick = <Item>(items: readonly Item[], random: Random): Item => {
  const item = items[Math.floor(random() * items.length)]
  if (item === undefined) throw new Error('nothing to pick from')
  return item
}

export const unicode = (letter: string): string => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
const percent = (letter: string): string => `%${letter.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`
export const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Spellings inside a JSON text. */
export const jsonSpellings = (random: Random): Readonly<Record<string, (key: string) => string>> => ({
  plain: inJson,
  'slash escaped': (key) => inJson(key).replaceAll('/', '\\/'),
  'all escaped': (key) => [...key].map(unicode).join(''),
  'escaped in capitals': (key) => [...key].map((letter) => unicode(letter).toUpperCase().replace('\\U', '\\u')).join(''),
  'escaped at will': (key) => [...key].map((letter) => (random() < 0.4 ? unicode(letter) : inJson(letter))).join(''),
  'of an address': (key) => encodeURIComponent(key),
  'of an address, every letter': (key) => [...key].map(percent).join(''),
  'of an address, small letters': (key) => encodeURIComponent(key).replaceAll(/%../g, (code) => code.toLowerCase()),
  base64: (key) => Buffer.from(key).toString('base64'),
  hex: (key) => Buffer.from(key).toString('hex'),
})

/** Spellings inside a CSV text. */
const csvSpellings = (random: Random): Readonly<Record<string, (key: string) => string>> => ({
  plain: (key) => `"${key.replaceAll('"', '""')}"`,
  'of an address': (key) => encodeURIComponent(key),
  'escaped at will': (key) =>
    `"${[...key].map((letter) => (random() < 0.4 ? unicode(letter) : letter.replace('"', '""'))).join('')}"`,
  base64: (key) => Buffer.from(key).toString('base64'),
  hex: (key) => Buffer.from(key).toString('hex').toUpperCase(),
})

const strings = /"(?:[^"\\]|\\.)*"/g

export const sayInJson = (text: string, key: string, random: Random, said: string[]): string => {
  const places = [...text.matchAll(strings)]
  if (places.length === 0) return text
  const place = pick(places, random)
  const [name, spell] = pick(Object.entries(jsonSpellings(random)), random)
  const inner = place[0].slice(1, -1)
  const way = random()
  const spelled = spell(key)
  const content = way < 0.4 ? spelled : way < 0.7 ? `${inner} ${spelled}` : `${spelled}${inner}`
  said.push(`JSON ${name}: ${place[0].slice(0, 40)}`)
  return `${text.slice(0, place.index)}"${content}"${text.slice(place.index + place[0].length)}`
}

export const sayInCsv = (text: string, key: string, random: Random, said: string[]): string => {
  const lines = text.split('\n')
  const at = Math.floor(random() * Math.max(1, lines.length - 1))
  const cells = (lines[at] ?? '').split(',')
  const [name, spell] = pick(Object.entries(csvSpellings(random)), random)
  const cell = Math.floor(random() * cells.length)
  cells[cell] = spell(key)
  lines[at] = cells.join(',')
  said.push(`CSV ${name}: line ${at + 1}, cell ${cell + 1}`)
  return lines.join('\n')
}

export const bodyOf = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}

export const ownHeaders = ['content-length', 'content-encoding', 'transfer-encoding', 'connection', 'keep-alive', 'date']

/** What comes in place of an answer's text; it may add headers. */
/** Another text, or another answer altogether. */
export type Change = (text: string, headers: Record<string, string>, path: string) => string | { status: number; text: string }

/** @param upstream address of the sandbox @param often share of answers in which the key is said */
export const startEchoing = async (upstream: string, key: string, random: Random, often = 0.35): Promise<EchoingService> => {
  const said: string[] = []
  return startChanging(upstream, said, (text, headers) => {
    let changed = text
    if (random() < often && text !== '')
      changed = isJson(text) ? sayInJson(text, key, random, said) : sayInCsv(text, key, random, said)
    if (random() < often / 2) {
      said.push('header')
      headers[pick(['x-request-id', 'x-trace', 'content-disposition', 'server', 'etag'], random)] = encodeURIComponent(key)
    }
    return changed
  })
}

export const isJson = (text: string): boolean => /^\s*[[{]/.test(text)

/** The sandbox with other answers. */
export const startChanging = async (upstream: string, said: string[], change: Change): Promise<EchoingService> => {
  let url = ''
  const server = createServer(async (request, response) => {
    const body = await bodyOf(request)
    const sent = Object.fromEntries(Object.entries(request.headers).filter(([name]) => name !== 'host' && name !== 'connection'))
    const answer = await fetch(`${upstream}${request.url}`, {
      method: request.method ?? 'GET',
      headers: sent as Record<string, string>,
      ...(body.length === 0 ? {} : { body: new Uint8Array(body) }),
      redirect: 'manual',
    })
    const headers = Object.fromEntries([...answer.headers].filter(([name]) => !ownHeaders.includes(name)))
    const text = Buffer.from(await answer.arrayBuffer())
      .toString('utf8')
      .replaceAll(upstream, url)
    if (headers['location'] !== undefined) headers['location'] = headers['location'].replaceAll(upstream, url)
    const changed = change(text, headers, `${request.method} ${request.url}`)
    const { status, text: told } = typeof changed === 'string' ? { status: answer.status, text: changed } : changed
    response.writeHead(status, headers).end(told)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  url = `http://127.0.0.1:${address.port}`
  return {
    url,
    said,
    close: async () => {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
