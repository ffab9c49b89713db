// Who may see the page: everybody on this machine's loopback, elsewhere the holder of the token. The token is never in an address.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { getConnInfo } from '@hono/node-server/conninfo'
import type { Context, MiddlewareHandler } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { html } from 'hono/html'
import type { Secret } from '../core/redact.ts'
import { page } from './layout.ts'

const cookieName = 'millrace_session'
const sessionMs = 12 * 60 * 60 * 1000
/** Wrong tokens that a sender may try in a minute; then its further wrong tokens get 429. The right token always works. */
const failuresAMinute = 10
/** Most senders that are remembered; the oldest are forgotten first. */
const mostSenders = 10_000

/** `token` null: none is needed, because only this machine can reach the page. */
export interface Access {
  readonly token: Secret | null
  readonly nowMs: () => number
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

/** Compares in constant time, also texts of different lengths. */
export const equal = (a: string, b: string): boolean => timingSafeEqual(digest(a), digest(b))

const loopbackNames = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i

/** Tells who may read the page, by cookie or by `Authorization: Bearer`. Sessions live in memory: a restart asks for the token again. */
export const createAccess = ({ token, nowMs }: Access) => {
  const sessions = new Map<string, number>()
  const failures = new Map<string, readonly number[]>()

  /** null: the token is right. A token of 16 characters or more cannot be guessed at any speed; the limit only keeps the noise down. */
  const refusal = (context: Context, given: string): 'wrong' | 'too many' | null => {
    if (token !== null && equal(given, token.reveal())) return null
    const sender = getConnInfo(context).remote.address ?? ''
    const recent = (failures.get(sender) ?? []).filter((at) => at > nowMs() - 60_000)
    if (recent.length >= failuresAMinute) return 'too many'
    failures.delete(sender)
    failures.set(sender, [...recent, nowMs()])
    const [oldest = ''] = failures.keys()
    if (failures.size > mostSenders) failures.delete(oldest)
    return 'wrong'
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
      const refused = refusal(context, given)
      if (refused === null) return next()
      if (refused === 'too many') return slowDown(context)
    }
    if (context.req.method === 'GET' && (context.req.header('accept') ?? '').includes('text/html'))
      return context.redirect('/login', 303)
    return context.text('Send the token: Authorization: Bearer …\n', 401, { 'www-authenticate': 'Bearer realm="millrace"' })
  }

  return {
    guard,
    login: async (context: Context): Promise<Response> => {
      if (context.req.method !== 'POST') return context.html(loginPage(''))
      const given = (await context.req.parseBody())['token']
      const refused = refusal(context, typeof given === 'string' ? given : '')
      if (refused === 'too many') return slowDown(context)
      if (refused === 'wrong') return context.html(loginPage('That is not the token.'), 401)
      const session = randomBytes(32).toString('base64url')
      for (const [ended, until] of sessions) if (until <= nowMs()) sessions.delete(ended)
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
    logout: (context: Context): Response => {
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
