// Requests to Superset's REST API as one logged-in user: bearer token, CSRF token with its session, answers checked, errors in words.
import { z } from 'zod'
import { EtlError, messageOf } from '../core/errors.ts'
import { type Secret, redact, secret } from '../core/redact.ts'

/** Superset's REST API as far as it is needed. Everything throws EtlError SUPERSET with the path and what it answered. */
export interface SupersetClient {
  get<T>(path: string, schema: z.ZodType<T>, query?: RisonValue): Promise<T>
  /** Every entry of a list, page by page. @param filters conditions that all hold */
  list<T>(path: string, entry: z.ZodType<T>, filters: readonly SupersetFilter[]): Promise<T[]>
  /** Returns the new thing's id. */
  create(path: string, body: unknown): Promise<number>
  update(path: string, body?: unknown): Promise<void>
  remove(path: string): Promise<void>
  /** Sends something that is answered with more than an id. */
  ask<T>(path: string, body: unknown, schema: z.ZodType<T>): Promise<T>
  /** Sends an archive as the form's `bundle`, with other fields of it. */
  upload(path: string, archive: Uint8Array<ArrayBuffer>, fields: Readonly<Record<string, string>>): Promise<void>
}

/** One condition of a list, in Superset's own words: `{ col, opr: 'eq', value }`. */
export interface SupersetFilter {
  readonly col: string
  readonly opr: string
  readonly value: string | number
}

/** A user that may make datasets and charts. */
export interface SupersetLogin {
  /** Without a slash at the end. */
  readonly url: string
  readonly user: string
  readonly password: Secret
  readonly signal: AbortSignal
}

interface Session {
  readonly headers: Readonly<Record<string, string>>
}

const answerMs = 60_000
/** An import makes every dataset and chart in one go. */
const importMs = 600_000
const pageSize = 100

/** Throws SUPERSET where it does not answer, CONFIGURATION where it does not know the user. */
export const openSuperset = async (login: SupersetLogin): Promise<SupersetClient> => {
  const session = await logIn(login)
  const call = (method: string, path: string, body?: unknown): Promise<unknown> => request(login, session, method, path, body)
  const get = async <T>(path: string, schema: z.ZodType<T>, query?: RisonValue): Promise<T> =>
    understood(path, schema, await call('GET', query === undefined ? path : `${path}?q=${encodeURIComponent(rison(query))}`))
  return {
    get,
    list: async (path, entry, filters) => {
      const found = []
      const page = z.object({ count: z.int(), result: z.array(entry) })
      for (let at = 0; ; at += 1) {
        const { count, result } = await get(path, page, {
          filters: filters.map((one) => ({ ...one })),
          page: at,
          page_size: pageSize,
        })
        found.push(...result)
        if (result.length === 0 || found.length >= count) return found
      }
    },
    create: async (path, body) => understood(path, z.object({ id: z.int() }), await call('POST', path, body)).id,
    update: async (path, body) => void (await call('PUT', path, body)),
    remove: async (path) => void (await call('DELETE', path)),
    ask: async (path, body, schema) => understood(path, schema, await call('POST', path, body)),
    upload: async (path, archive, fields) => {
      const form = new FormData()
      for (const [name, value] of Object.entries(fields)) form.set(name, value)
      form.set('bundle', new Blob([archive], { type: 'application/zip' }), 'bundle.zip')
      await call('POST', path, form)
    },
  }
}

const logIn = async (login: SupersetLogin): Promise<Session> => {
  const credentials = { username: login.user, password: login.password.reveal(), provider: 'db', refresh: false }
  const path = '/api/v1/security/login'
  const { body: entered } = await exchange(login, { headers: {} }, 'POST', path, credentials)
  const token = secret('Superset token', understood(path, z.object({ access_token: z.string() }), entered).access_token)
  const bearer = { authorization: `Bearer ${token.reveal()}` }
  const csrfPath = '/api/v1/security/csrf_token/'
  const { body, cookies } = await exchange(login, { headers: bearer }, 'GET', csrfPath)
  const { result } = understood(csrfPath, z.object({ result: z.string() }), body)
  secret('Superset CSRF token', result)
  return {
    headers: { ...bearer, 'x-csrftoken': result, referer: `${login.url}/`, ...(cookies === '' ? {} : { cookie: cookies }) },
  }
}

const request = async (login: SupersetLogin, session: Session, method: string, path: string, body?: unknown): Promise<unknown> =>
  (await exchange(login, session, method, path, body)).body

const exchange = async (
  { url, signal }: SupersetLogin,
  { headers }: Session,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ body: unknown; cookies: string }> => {
  const where = `${method} ${path.split('?')[0]}`
  const isJson = body !== undefined && !(body instanceof FormData)
  const answer = await send(where, `${url}${path}`, {
    method,
    headers: { accept: 'application/json', ...(isJson ? { 'content-type': 'application/json' } : {}), ...headers },
    ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
    redirect: 'manual',
    signal: AbortSignal.any([signal, AbortSignal.timeout(body instanceof FormData ? importMs : answerMs)]),
  })
  if (answer.status >= 200 && answer.status < 300) return { body: parsed(answer.text), cookies: answer.cookies }
  if (path === '/api/v1/security/login' && answer.status === 401)
    throw new EtlError(
      'CONFIGURATION',
      'Superset does not know the user or the password; check MILLRACE_SUPERSET_USER and MILLRACE_SUPERSET_PASSWORD.',
    )
  throw new EtlError(
    'SUPERSET',
    `Superset answers ${where} with ${answer.status}: ${said(answer.text)}. ${remedy(answer.status)}`,
  )
}

const send = async (
  where: string,
  url: string,
  init: RequestInit,
): Promise<{ status: number; text: string; cookies: string }> => {
  try {
    const answer = await fetch(url, init)
    const cookies = answer.headers.getSetCookie().map((one) => one.split(';')[0] ?? '')
    for (const cookie of cookies) secret('Superset session', cookie.slice(cookie.indexOf('=') + 1))
    return { status: answer.status, text: await answer.text(), cookies: cookies.join('; ') }
  } catch (error) {
    throw new EtlError(
      'SUPERSET',
      `Superset at ${new URL(url).origin} does not answer ${where}: ${redact(causeOf(error))}. Check the address and that Superset runs, then run the command again.`,
      { cause: error },
    )
  }
}

/** fetch hides what happened in its cause. */
const causeOf = (error: unknown): string =>
  error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : messageOf(error)

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Superset's own words, which come in several shapes. */
const said = (text: string): string => {
  const body = z
    .object({ message: z.unknown().optional(), errors: z.array(z.object({ message: z.string() })).optional() })
    .safeParse(parsed(text))
  const words = body.success ? (body.data.errors?.map(({ message }) => message).join('; ') ?? body.data.message) : null
  const told = words === null || words === undefined ? text : typeof words === 'string' ? words : JSON.stringify(words)
  return redact(told.replaceAll(/\s+/g, ' ').slice(0, 400)) || 'nothing'
}

const remedy = (status: number): string => {
  if (status === 401 || status === 403)
    return 'Give the user the role Admin, or Alpha and sql_lab with the rights to write databases and to import assets.'
  if (status === 422)
    return 'What it says tells which part it refuses; a connection is refused where Superset cannot reach the database.'
  if (status >= 300 && status < 400) return 'Give the address Superset itself has, without a path that redirects.'
  return "Check Superset's log, then run the command again to resume."
}

const understood = <T>(path: string, schema: z.ZodType<T>, body: unknown): T => {
  const checked = schema.safeParse(body)
  if (checked.success) return checked.data
  const [issue] = checked.error.issues
  throw new EtlError(
    'SUPERSET',
    `Superset's answer to ${path} is not as expected at ${issue?.path.join('.') || 'its top'}: ${issue?.message}. Is it Superset 4 or newer at this address?`,
  )
}

type RisonValue = string | number | boolean | readonly RisonValue[] | { readonly [key: string]: RisonValue }

/** Text in quotes, so that no character of a value means something. Keys are plain words. */
export const rison = (value: RisonValue): string => {
  if (typeof value === 'string') return `'${value.replaceAll(/[!']/g, '!$&')}'`
  if (typeof value === 'number') return String(value)
  if (typeof value === 'boolean') return value ? '!t' : '!f'
  if (isList(value)) return `!(${value.map(rison).join(',')})`
  return `(${Object.entries(value)
    .map(([key, one]) => `${key}:${rison(one)}`)
    .join(',')})`
}

const isList = (value: RisonValue): value is readonly RisonValue[] => Array.isArray(value)
