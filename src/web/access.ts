// Who may see the page: everybody on this machine's loopback, elsewhere whoever has the token. The token is never in an address.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Context, MiddlewareHandler } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { html } from 'hono/html'
import type { Secret } from '../core/redact.ts'
import { page } from './layout.ts'

const cookieName = 'millrace_session'
const sessionMs = 12 * 60 * 60 * 1000
/** Wrong tokens allowed a minute, over all callers; then every try waits. */
const failuresAMinute = 10

export interface Access {
  readonly token: Secret | null
  readonly nowMs: () => number
}

export interface AccessGuard {
  readonly guard: MiddlewareHandler
  /** Handles the form at `/login`. */
  login(context: Context): Promise<Response>
  logout(context: Context): Response
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** In constant time, whatever the length. */
const equal = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b))

const loopbackNames = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i

/** Sessions live in memory: a restart asks for the token again. */
export const createAccess = ({ token, nowMs }: Access): AccessGuard => {
  const sessions = new Map<string, number>()
  let failures: number[] = []

  const tooMany = (): boolean => {
    failures = failures.filter((at) => at > nowMs() - 60_000)
    return failures.length >= failuresAMinute
  }
  const accepts = (given: string): boolean => {
    const right = token !== null && equal(given, token.reveal())
    if (!right) failures.push(nowMs())
    return right
  }
  const hasSession = (context: Context): boolean => {
    const until = sessions.get(getCookie(context, cookieName) ?? '')
    return until !== undefined && until > nowMs()
  }
  const bearer = (context: Context): string | null => /^Bearer (.+)$/.exec(context.req.header('authorization') ?? '')?.[1] ?? null

  const guard: MiddlewareHandler = async (context, next) => {
    // Without a token only loopback is served, and only under its own name: a foreign name that resolves to 127.0.0.1 gets nothing.
    if (token === null) {
      if (loopbackNames.test(context.req.header('host') ?? '')) return next()
      return context.text('This page answers to localhost only.\n', 421)
    }
    if (hasSession(context)) return next()
    const given = bearer(context)
    if (given !== null) {
      if (tooMany()) return slowDown(context)
      if (accepts(given)) return next()
    }
    if (context.req.method === 'GET' && (context.req.header('accept') ?? '').includes('text/html'))
      return context.redirect('/login', 303)
    return context.text('Send the token: Authorization: Bearer …\n', 401, { 'www-authenticate': 'Bearer realm="millrace"' })
  }

  return {
    guard,
    login: async (context) => {
      if (context.req.method !== 'POST') return context.html(loginPage(''))
      if (tooMany()) return slowDown(context)
      const given = (await context.req.parseBody())['token']
      if (typeof given !== 'string' || !accepts(given)) return context.html(loginPage('That is not the token.'), 401)
      const session = randomBytes(32).toString('base64url')
      sessions.set(session, nowMs() + sessionMs)
      setCookie(context, cookieName, session, {
        httpOnly: true,
        sameSite: 'Strict',
        path: '/',
        maxAge: sessionMs / 1000,
        secure: context.req.header('x-forwarded-proto') === 'https',
      })
      return context.redirect('/', 303)
    },
    logout: (context) => {
      sessions.delete(getCookie(context, cookieName) ?? '')
      deleteCookie(context, cookieName, { path: '/' })
      return context.redirect('/login', 303)
    },
  }
}

const slowDown = (context: Context): Response =>
  context.text('Too many wrong tokens; wait a minute.\n', 429, { 'retry-after': '60' })

const loginPage = (error: string) =>
  page({
    title: 'Log in',
    place: '',
    warehouse: '',
    live: false,
    body: html`<form method="post" action="/login" class="login">
<p><label for="token">Token (MILLRACE_WEB_TOKEN)</label> <input id="token" name="token" type="password" autocomplete="current-password" required></p>
${error === '' ? '' : html`<p class="problem" role="alert">${error}</p>`}
<p><button type="submit">Log in</button></p>
</form>`,
  })
