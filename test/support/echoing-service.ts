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

const unicode = (letter: string): string => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`
const percent = (letter: string): string => `%${letter.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`
const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

/** Spellings inside a JSON text. */
const jsonSpellings = (random: Random): Readonly<Record<string, (key: string) => string>> => ({
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
export type Change = (text: string, headers: Record<string, string>, path: string) => string

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

const isJson = (text: string): boolean => /^\s*[[{]/.test(text)

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
    response.writeHead(answer.status, headers).end(changed)
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

const csvDoubled = (text: string): string => text.replaceAll('"', '""')
const inHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** The content of a string of JSON, in each spelling. */
const contents = (key: string): string[] => [
  ...Object.values(jsonSpellings(() => 0.3)).map((spell) => spell(key)),
  inJson(csvDoubled(key)),
  [...csvDoubled(key)].map(unicode).join(''),
  inJson(inJson(key)),
  inJson(csvDoubled(inJson(key))),
  inJson(inHtml(key)),
  encodeURIComponent(encodeURIComponent(key)),
  Buffer.from(key).toString('base64').replaceAll('/', '\\/'),
]

type Json = string | number | boolean | null | Json[] | { [name: string]: Json }
const here = 'THE-PLACE-OF-THE-KEY'

/** Each string of it with a copy in which it is the mark: values by their path, of lists the first, and names. */
const placesOf = (value: Json, path: string, build: (changed: Json) => Json): [string, string, Json][] => {
  if (typeof value === 'string') return [[path, value, build(here)]]
  if (Array.isArray(value)) {
    const [first, ...rest] = value
    return first === undefined ? [] : placesOf(first, `${path}[]`, (changed) => build([changed, ...rest]))
  }
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([name, one]) => [
    [
      `${path}.${name} (name)`,
      name,
      build(Object.fromEntries(Object.entries(value).map(([other, its]) => [other === name ? here : other, its]))),
    ],
    ...placesOf(one, `${path}.${name}`, (changed) => build({ ...value, [name]: changed })),
  ])
}

/** Of CSV: the names, and the cells of the first line. */
const cellsOf = (text: string): [string, string, string][] => {
  const lines = text.split('\n').map((line) => line.split(','))
  return lines
    .slice(0, 2)
    .flatMap((cells, row) =>
      cells.map((cell, column): [string, string, string] => [
        `${row === 0 ? 'name' : 'cell'} ${column + 1}`,
        cell,
        lines.map((other, at) => (at === row ? other.with(column, here) : other).join(',')).join('\n'),
      ]),
    )
}

const ways = ['instead', 'around'] as const
const headerNames = [
  'x-request-id',
  'content-disposition',
  'etag',
  'server',
  'retry-after',
  'last-modified',
  'x-credits-used',
  'content-type',
]

export interface ThoroughService extends EchoingService {
  /** Places of answers, by what is asked, in which it has not said the key in every way yet. */
  left(): string[]
}

/**
 * Says the key in every answer, by turns in each string of it: instead of what stands there in one spelling, around it in all of them; and in
 * each header.
 */
export const startThorough = async (upstream: string, key: string): Promise<ThoroughService> => {
  const said: string[] = []
  const open = new Map<string, Set<string>>()
  const done = new Set<string>()
  let turn = 0
  const spelled = contents(key)
  const fill = (way: string, content: string, all: readonly string[]): string =>
    way === 'instead' ? (all[turn % all.length] ?? '') : `${all.join(' ')} ${content}${all.join(' ')}`
  const change: Change = (text, headers, path) => {
    const asked = path.replace(/\?.*/, '').replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27,}|\d{3,}/g, ':id')
    turn += 1
    const header = headerNames[turn % headerNames.length] ?? 'etag'
    if (turn % 4 === 0) headers[header] = encodeURIComponent(key)
    if (text === '') return text
    const json = isJson(text)
    const places: [string, string, string][] = json
      ? placesOf(JSON.parse(text), '', (changed) => changed).map(([name, content, copy]) => [name, content, JSON.stringify(copy)])
      : cellsOf(text)
    const wanted = open.get(asked) ?? new Set<string>()
    open.set(asked, wanted)
    for (const [name] of places) for (const way of ways) if (!done.has(`${asked} ${name} ${way}`)) wanted.add(`${name} ${way}`)
    // By turns as it is, so that what is asked next comes to be asked.
    if (turn % 5 === 0) return text
    const next = places
      .flatMap((place) => ways.map((way) => ({ place, way })))
      .find(({ place, way }) => wanted.has(`${place[0]} ${way}`))
    if (next === undefined) return text
    const {
      place: [name, content, copy],
      way,
    } = next
    wanted.delete(`${name} ${way}`)
    done.add(`${asked} ${name} ${way}`)
    said.push(`${asked} ${name} ${way}`)
    if (json) return copy.replace(`"${here}"`, () => `"${fill(way, inJson(content), spelled)}"`)
    const inCell = [csvDoubled(key), csvDoubled(inJson(key)), ...spelled.slice(2, 10)]
    return copy.replace(here, () => `"${fill(way, content.replaceAll('"', ''), inCell)}"`)
  }
  const service = await startChanging(upstream, said, change)
  return { ...service, left: () => [...open].flatMap(([asked, wanted]) => [...wanted].map((one) => `${asked} ${one}`)) }
}
