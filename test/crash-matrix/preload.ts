// Loaded into the real command before anything else: counts every boundary at which it has an effect outside itself, and dies at one of them.
// A kill just before an effect equals a kill just after the one before it, so each effect has one boundary: done, and the program does
// not know yet. Requests and commits have one more: handed over, and not answered.
import { subscribe } from 'node:diagnostics_channel'
import fs from 'node:fs'
import fsPromises, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename } from 'node:path'
import pg from 'pg'
import { killAtName, recordName } from './boundary.ts'

const append = fs.appendFileSync
const record = process.env[recordName]
const killAt = process.env[killAtName]
const seen = new Map<string, number>()

const boundary = (label: string): void => {
  const occurrence = (seen.get(label) ?? 0) + 1
  seen.set(label, occurrence)
  const name = `${label} #${occurrence}`
  if (record !== undefined) append(record, `${name}\n`)
  if (name === killAt) process.kill(process.pid, 'SIGKILL')
}

type Method = (this: unknown, ...args: unknown[]) => unknown

/** Replaces `owner[name]` by what `make` does with it; fails loudly where there is no such function, lest boundaries go missing unseen. */
const replace = (owner: object, name: string, make: (original: Method) => Method): void => {
  const original: unknown = Reflect.get(owner, name)
  if (typeof original !== 'function') throw new Error(`crash matrix: there is no ${name} to watch`)
  const made = make(function (this: unknown, ...args) {
    return Reflect.apply(original, this, args)
  })
  // What promisify needs to know of it.
  for (const symbol of Object.getOwnPropertySymbols(original)) Reflect.set(made, symbol, Reflect.get(original, symbol))
  Reflect.set(owner, name, made)
}

const watchFiles = async (): Promise<void> => {
  const names = new WeakMap<object, string>()
  const probe = await fsPromises.open(process.execPath, 'r')
  const handle: object = Object.getPrototypeOf(probe)
  await probe.close()
  for (const [method, word] of [
    ['write', 'write'],
    ['writeFile', 'write'],
    ['sync', 'fsync'],
  ] as const) {
    replace(
      handle,
      method,
      (original) =>
        async function (this: unknown, ...args) {
          const result = await original.apply(this, args)
          boundary(`file ${word}: ${names.get(Object(this)) ?? 'unnamed'}`)
          return result
        },
    )
  }
  replace(fsPromises, 'open', (original) => async (path, ...rest) => {
    const file = (await original(path, ...rest)) as FileHandle
    names.set(file, placeOf(path))
    return file
  })
  for (const method of ['rename', 'rm', 'unlink', 'writeFile'] as const) {
    replace(fsPromises, method, (original) => async (path, ...rest) => {
      const result = await original(path, ...rest)
      boundary(`file ${method}: ${placeOf(path)}`)
      return result
    })
  }
  watchDescriptors()
  syncBuiltinESMExports()
}

/** The same for files that are held by their number. */
const watchDescriptors = (): void => {
  const places = new Map<unknown, string>()
  replace(fs, 'openSync', (original) => (path, ...rest) => {
    const descriptor = original(path, ...rest)
    places.set(descriptor, placeOf(path))
    return descriptor
  })
  replace(fs, 'open', (original) => (path, ...rest) => {
    const done = rest.pop() as (error: unknown, descriptor: unknown) => void
    return original(path, ...rest, (error: unknown, descriptor: unknown) => {
      places.set(descriptor, placeOf(path))
      done(error, descriptor)
    })
  })
  for (const [method, word] of [
    ['write', 'write'],
    ['fsync', 'fsync'],
  ] as const) {
    replace(fs, method, (original) => (descriptor, ...rest) => {
      const done = rest.pop() as (...answer: unknown[]) => void
      return original(descriptor, ...rest, (...answer: unknown[]) => {
        const place = places.get(descriptor)
        if (place !== undefined) boundary(`file ${word}: ${place}`)
        done(...answer)
      })
    })
  }
}

/** Folders of units are named by what is in them; files by their own name. */
const placeOf = (path: unknown): string => (/\.[a-z]+$/.test(String(path)) ? basename(String(path)) : 'folder')

interface Connection {
  boundaryOf?: string | undefined
  /** The transaction has loaded an answer. */
  hasLoaded?: boolean
}

const watchStatements = (): void => {
  const named = new WeakMap<object, Map<string, string>>()
  const connection: object = pg.Connection.prototype
  replace(
    connection,
    'query',
    (original) =>
      function (this: unknown, text) {
        const result = original.call(this, text)
        sent(this as Connection, String(text))
        return result
      },
  )
  replace(
    connection,
    'parse',
    (original) =>
      function (this: unknown, ...args) {
        const { text, name } = args[0] as { text: string; name?: string }
        const texts = named.get(this as object) ?? new Map<string, string>()
        if (name) named.set(this as object, texts.set(name, text))
        sent(this as Connection, text)
        return original.apply(this, args)
      },
  )
  replace(
    connection,
    'bind',
    (original) =>
      function (this: unknown, ...args) {
        const { statement } = args[0] as { statement?: string }
        const text = statement ? named.get(this as object)?.get(statement) : undefined
        if (text !== undefined) sent(this as Connection, text)
        return original.apply(this, args)
      },
  )
  replace(
    connection,
    'emit',
    (original) =>
      function (this: unknown, event, ...rest) {
        if (event === 'readyForQuery') answered(this as Connection)
        return original.call(this, event, ...rest)
      },
  )
}

const sent = (connection: Connection, text: string): void => {
  connection.boundaryOf = labelOf(text)
  if (/insert into etl\.load_rows/.test(text)) {
    connection.hasLoaded = true
    boundary('load sent')
  }
  if (/^\s*begin/i.test(text)) connection.hasLoaded = false
  if (/^\s*commit/i.test(text)) boundary(`commit sent${loadOf(connection)}`)
}

const loadOf = ({ hasLoaded = false }: Connection): string => (hasLoaded ? ': load' : '')

const answered = (connection: Connection): void => {
  const label = connection.boundaryOf
  connection.boundaryOf = undefined
  if (label !== undefined) boundary(label === 'commit' ? `commit answered${loadOf(connection)}` : `statement: ${label}`)
}

/** Names of jobs, numbers and spaces differ from run to run. */
const labelOf = (text: string): string =>
  text
    .replace(/'[^']*'/g, "'…'")
    .replace(/[0-9a-f]{8,}/g, '…')
    .replace(/\d+/g, 'n')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 160)

interface RequestMessage {
  readonly request: { readonly method: string; readonly path: string }
}

const watchRequests = (): void => {
  const nameOf = (message: unknown): string => {
    const { method, path } = (message as RequestMessage).request
    return `${method} ${path.replace(/\?.*/, '').replace(/[0-9a-f-]{16,}[^/]*/g, ':id')}`
  }
  // Written in the same turn, so handed to the kernel once the turn is over.
  subscribe('undici:request:bodySent', (message) => setImmediate(() => boundary(`request sent: ${nameOf(message)}`)))
  subscribe('undici:request:headers', (message) => boundary(`answer begun: ${nameOf(message)}`))
  subscribe('undici:request:trailers', (message) => boundary(`answer whole: ${nameOf(message)}`))
}

watchStatements()
watchRequests()
await watchFiles()
