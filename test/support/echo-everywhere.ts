// A service that says the key back everywhere: in each string of each answer and in each name, in errors, redirects and headers, in every spelling.
import { type Change, type EchoingService, inJson, isJson, jsonSpellings, startChanging, unicode } from './echoing-service.ts'

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
  new URLSearchParams({ a: key }).toString().slice(2),
  Buffer.from(key).toString('base64').replaceAll('/', '\\/'),
  Buffer.from(key).toString('base64url'),
]

type Json = string | number | boolean | null | Json[] | { [name: string]: Json }
const here = 'THE-PLACE-OF-THE-KEY'

/** A place of an answer, what stands in it, and the answer with the mark in its stead. */
type Place = readonly [name: string, content: string, copy: string]

/** Each string: values by their path, of lists the first, and names. */
const placesOf = (value: Json, path: string, build: (changed: Json) => Json): Place[] => {
  const place = (name: string, content: string, changed: Json): Place => [name, content, JSON.stringify(build(changed))]
  if (typeof value === 'string') return [place(path, value, here)]
  if (Array.isArray(value)) {
    const [first, ...rest] = value
    return first === undefined ? [] : placesOf(first, `${path}[]`, (changed) => build([changed, ...rest]))
  }
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([name, one]) => [
    place(
      `${path}.${name} (name)`,
      name,
      Object.fromEntries(Object.entries(value).map(([other, its]) => [other === name ? here : other, its])),
    ),
    ...placesOf(one, `${path}.${name}`, (changed) => build({ ...value, [name]: changed })),
  ])
}

/** Of CSV: the names, and the cells of the first line. */
const cellsOf = (text: string): Place[] => {
  const lines = text.split('\n').map((line) => line.split(','))
  return lines
    .slice(0, 2)
    .flatMap((cells, row) =>
      cells.map(
        (cell, column): Place => [
          `${row === 0 ? 'name' : 'cell'} ${column + 1}`,
          cell,
          lines.map((other, at) => (at === row ? other.with(column, here) : other).join(',')).join('\n'),
        ],
      ),
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
const errors = ['400', '401', '429', '503', 'redirect', 'redirect elsewhere'] as const
/** Said last: an endpoint that answers so is not asked again by this process. */
const lastErrors = ['404', 'HTML'] as const

const redirected = '/redirected/'

export interface EchoEverywhere extends EchoingService {
  /** Places of answers, by what is asked, in which it has not said the key in every way yet. */
  left(): string[]
}

/** What has been said and what is left, each thing once by what is asked. */
const createTurns = (): { next<T extends string>(asked: string, names: readonly T[]): T | undefined; left(): string[] } => {
  const open = new Set<string>()
  const done = new Set<string>()
  return {
    next: (asked, names) => {
      for (const name of names) if (!done.has(`${asked} ${name}`)) open.add(`${asked} ${name}`)
      const found = names.find((name) => open.has(`${asked} ${name}`))
      if (found !== undefined) {
        open.delete(`${asked} ${found}`)
        done.add(`${asked} ${found}`)
      }
      return found
    },
    left: () => [...open],
  }
}

const nameOf = (path: string): string => path.replace(/\?.*/, '').replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27,}|\d{3,}/g, ':id')

/**
 * Says the key by turns: in each string of an answer, instead of what stands there in one spelling and around it in all of them; in refusals,
 * failures and redirects in all of them; in each header.
 * @param elsewhere another host, to which it redirects with the key in the address
 */
export const startEchoEverywhere = async (upstream: string, key: string, elsewhere: string): Promise<EchoEverywhere> => {
  const said: string[] = []
  const turns = createTurns()
  const spelled = contents(key)
  const asks = new Map<string, number>()
  let turn = 0
  const fill = (way: string, content: string, all: readonly string[]): string =>
    way === 'instead' ? (all[turn % all.length] ?? '') : `${all.join(' ')} ${content}${all.join(' ')}`
  const failed = (error: string, headers: Record<string, string>): { status: number; text: string } => {
    const words = fill('around', 'refused', spelled)
    if (error.startsWith('redirect')) {
      headers['location'] =
        `${error === 'redirect' ? '' : elsewhere}${redirected}${encodeURIComponent(key)}?api_key=${encodeURIComponent(key)}`
      return { status: 302, text: '' }
    }
    headers['content-type'] = error === 'HTML' ? 'text/html' : 'application/json'
    if (error === 'HTML') return { status: 200, text: `<html>${inHtml(key)} ${key} ${words}</html>` }
    const body = `{"message":"${words}","error":{"code":"${words}","${words}":["${words}"]},"errors":["${words}"]}`
    return { status: Number(error), text: body }
  }
  const change: Change = (text, headers, path) => {
    const asked = nameOf(path)
    const asking = (asks.get(asked) ?? 0) + 1
    asks.set(asked, asking)
    turn += 1
    if (turn % 4 === 0) headers[headerNames[(turn / 4) % headerNames.length] ?? 'etag'] = encodeURIComponent(key)
    // By turns as it is, so that what is asked next comes to be asked.
    if (asking % 3 === 0 || asked.includes(redirected)) return text
    const refused = (ways: readonly string[]): { status: number; text: string } | null => {
      const error = turns.next(asked, ways)
      if (error === undefined) return null
      said.push(`${asked} ${error}`)
      return failed(error, headers)
    }
    const early = asking % 3 === 1 ? refused(errors) : null
    if (early !== null) return early
    if (text === '') return text
    const json = isJson(text)
    const places = json ? placesOf(JSON.parse(text), '', (changed) => changed) : cellsOf(text)
    const named = new Map(places.flatMap((place) => ways.map((way) => [`${place[0]} ${way}`, { place, way }] as const)))
    const next = turns.next(asked, [...named.keys()])
    const found = next === undefined ? undefined : named.get(next)
    if (found === undefined) return refused(lastErrors) ?? text
    said.push(`${asked} ${next}`)
    const [, content, copy] = found.place
    if (json) return copy.replace(`"${here}"`, () => `"${fill(found.way, inJson(content), spelled)}"`)
    const inCell = [csvDoubled(key), csvDoubled(inJson(key)), ...spelled.slice(2, 10)]
    return copy.replace(here, () => `"${fill(found.way, content.replaceAll('"', ''), inCell)}"`)
  }
  const service = await startChanging(upstream, said, change)
  return { ...service, left: turns.left }
}
