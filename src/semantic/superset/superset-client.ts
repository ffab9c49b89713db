// Calls Superset's REST API as one logged-in user: bearer token, CSRF token with its session; checks answers and turns errors into EtlErrors.
import { crc32 } from 'node:zlib'
import { z } from 'zod'
import { jsonOrNull } from '../../core/json.ts'
import { EtlError, messageOf, settingError } from '../../core/errors.ts'
import { redact, type Secret, secret } from '../../core/redact.ts'

/** The parts of Superset's REST API that are used. Every call throws SUPERSET with the path and the answer. */
export type SupersetClient = Awaited<ReturnType<typeof openSuperset>>

type ListFilter = readonly [column: string, comparison: 'eq' | 'rel_o_m' | 'rel_m_m', value: string | number]

/** A user that may make datasets and charts. */
interface SupersetLogin {
  /** Without a slash at the end. */
  readonly url: string
  readonly user: string
  readonly password: Secret
  readonly signal: AbortSignal
}

const answerMs = 60_000
/** Longer, because one import makes all datasets and charts. */
const importMs = 600_000
const pageSize = 100

/** Logs in. Throws SUPERSET where Superset does not answer, CONFIGURATION where it refuses the user. */
export const openSuperset = async (login: SupersetLogin) => {
  const headers = await logIn(login)
  /** Sends FormData as a form, any other body as JSON. */
  const ask = async <T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, schema: z.ZodType<T>, body?: unknown) =>
    understood(path, schema, (await exchange(login, headers, method, path, body)).body)
  return {
    ask,
    /** All entries of a list, page by page. @param filters combined with AND: column, Superset's operator, value */
    list: async <T>(path: string, entry: z.ZodType<T>, ...filters: readonly ListFilter[]) => {
      const found: T[] = []
      const page = z.object({ count: z.int(), result: z.array(entry) })
      const conditions = filters.map(([col, opr, value]) => `(col:${col},opr:${opr},value:${risonOf(value)})`).join(',')
      for (let at = 0; ; at += 1) {
        const query = `(filters:!(${conditions}),page:${at},page_size:${pageSize})`
        const { count, result } = await ask('GET', `${path}?q=${encodeURIComponent(query)}`, page)
        found.push(...result)
        if (result.length === 0 || found.length >= count) return found
      }
    },
  }
}

/** A value in Rison, the notation of Superset's list filters; text is quoted and escaped. */
export const risonOf = (value: string | number): string =>
  typeof value === 'number' ? String(value) : `'${value.replaceAll(/[!']/g, '!$&')}'`

type Headers = Readonly<Record<string, string>>

const logIn = async (login: SupersetLogin): Promise<Headers> => {
  const credentials = { username: login.user, password: login.password.reveal(), provider: 'db', refresh: false }
  const { body: entered } = await exchange(login, {}, 'POST', loginPath, credentials)
  const token = secret('Superset token', understood(loginPath, z.object({ access_token: z.string() }), entered).access_token)
  const bearer = { authorization: `Bearer ${token.reveal()}` }
  const csrfPath = '/api/v1/security/csrf_token/'
  const { body, cookies } = await exchange(login, bearer, 'GET', csrfPath)
  const { result } = understood(csrfPath, z.object({ result: z.string() }), body)
  secret('Superset CSRF token', result)
  return { ...bearer, 'x-csrftoken': result, referer: `${login.url}/`, ...(cookies === '' ? {} : { cookie: cookies }) }
}

const loginPath = '/api/v1/security/login'

const exchange = async ({ url, signal }: SupersetLogin, headers: Headers, method: string, path: string, body?: unknown) => {
  const where = `${method} ${path.split('?')[0]}`
  const isForm = body instanceof FormData
  const answer = await send(where, `${url}${path}`, {
    method,
    headers: {
      accept: 'application/json',
      ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    redirect: 'manual',
    signal: AbortSignal.any([signal, AbortSignal.timeout(isForm ? importMs : answerMs)]),
  })
  if (answer.status >= 200 && answer.status < 300) return { body: jsonOrNull(answer.text), cookies: answer.cookies }
  if (path === loginPath && answer.status === 401)
    throw settingError(
      'Superset does not know the user or the password; check MILLRACE_SUPERSET_USER and MILLRACE_SUPERSET_PASSWORD.',
    )
  throw new EtlError(
    'SUPERSET',
    `Superset answers ${where} with ${answer.status}: ${said(answer.text)}. ${remedy(answer.status)}`,
  )
}

const send = async (where: string, url: string, init: RequestInit) => {
  try {
    const answer = await fetch(url, init)
    const cookies = answer.headers.getSetCookie().map((one) => one.split(';')[0] ?? '')
    for (const cookie of cookies) secret('Superset session', cookie.slice(cookie.indexOf('=') + 1))
    return { status: answer.status, text: await answer.text(), cookies: cookies.join('; ') }
  } catch (error) {
    // The error of fetch has the reason only in its cause.
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
    throw new EtlError(
      'SUPERSET',
      `Superset at ${new URL(url).origin} does not answer ${where}: ${redact(messageOf(cause))}. Check the address and that Superset runs, then run the command again.`,
      { cause: error },
    )
  }
}

/** Superset's message, which comes in several shapes. */
const said = (text: string): string => {
  const shape = z.object({ message: z.unknown().optional(), errors: z.array(z.object({ message: z.string() })).optional() })
  const { data } = shape.safeParse(jsonOrNull(text))
  const words = data?.errors?.map(({ message }) => message).join('; ') ?? data?.message ?? text
  return redact((typeof words === 'string' ? words : JSON.stringify(words)).replaceAll(/\s+/g, ' ').slice(0, 400)) || 'nothing'
}

const remedy = (status: number): string => {
  if (status === 401 || status === 403)
    return 'Give the user the role Admin, or Alpha with the rights to write databases and to import assets.'
  if (status === 422)
    return 'Its message names the part that it refuses; a connection is refused if Superset cannot reach the database.'
  if (status >= 300 && status < 400) return 'Give the address Superset itself has, without a path that redirects.'
  return "Check Superset's log, then run the command again to resume."
}

const understood = <T>(path: string, schema: z.ZodType<T>, body: unknown): T => {
  const checked = schema.safeParse(body)
  if (checked.success) return checked.data
  const [issue] = checked.error.issues
  throw new EtlError(
    'SUPERSET',
    `Superset's answer to ${path.split('?')[0]} is not as expected at ${issue?.path.join('.') || 'its top'}: ${issue?.message}. Is it Superset 4 or newer at this address?`,
  )
}

/** 1 January 1980, the earliest date of the ZIP format; constant, so that the same files give the same bytes. */
const dosDate = 0x21
/** Marks names as UTF-8. */
const utf8Flag = 0x800

/** Files as a ZIP archive, stored without compression; Superset imports only ZIP. @param root folder in the archive that contains all files */
export const zipOf = (files: ReadonlyMap<string, string>, root: string): Uint8Array<ArrayBuffer> => {
  const entries: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [path, text] of files) {
    const [name, content] = [Buffer.from(`${root}/${path}`), Buffer.from(text)]
    const { length } = content
    const sizes = numbers([crc32(content), 4], [length, 4], [length, 4], [name.length, 2], [0, 2])
    const common = Buffer.concat([numbers([20, 2], [utf8Flag, 2], [0, 4], [dosDate, 2]), sizes])
    directory.push(Buffer.from('PK\x01\x02\x14\x00', 'latin1'), common, numbers([0, 4], [0, 6], [offset, 4]), name)
    const entry = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), common, name, content])
    entries.push(entry)
    offset += entry.length
  }
  const { length } = Buffer.concat(directory)
  const end = numbers([0, 4], [files.size, 2], [files.size, 2], [length, 4], [offset, 4], [0, 2])
  return new Uint8Array(Buffer.concat([...entries, ...directory, Buffer.from('PK\x05\x06', 'latin1'), end]))
}

/** Numbers in little-endian, as in all of the ZIP format. */
const numbers = (...all: readonly (readonly [value: number, bytes: number])[]): Buffer => {
  const written = all.map(([value, bytes]) => {
    const one = Buffer.alloc(bytes)
    one.writeUIntLE(value, 0, bytes)
    return one
  })
  return Buffer.concat(written)
}
