// The status page as one app: headers, access, pages, metrics and actions.
import { serveStatic } from '@hono/node-server/serve-static'
import { setTimeout } from 'node:timers/promises'
import { type Context, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { csrf } from 'hono/csrf'
import { html } from 'hono/html'
import { HTTPException } from 'hono/http-exception'
import { secureHeaders } from 'hono/secure-headers'
import { jsonOrNull } from '../core/json.ts'
import type { Secret } from '../core/redact.ts'
import { shipped } from '../core/shipped.ts'
import { unitStates } from '../core/types.ts'
import { sqlStateOf } from '../db/database-error.ts'
import type { Db } from '../db/tables.ts'
import { queryValue, type Texts } from '../db/typed-row.ts'
import { createAccess, equal } from './access.ts'
import { mountActions, numberIn } from './actions.ts'
import type { WebContext } from './context.ts'
import { createPlanCache, type PlanCache } from './plan-cache.ts'
import { type Html, page } from './layout.ts'
import { metricsText, metricsWithoutLedger } from './metrics.ts'
import { coveragePage, missingMonthPage, pipelineCoveragePage, searchPage } from './pages/coverage-page.ts'
import { overviewPage } from './pages/overview-page.ts'
import { planPage } from './pages/plan-page.ts'
import { quarantinePage, reportsPage, testsPage } from './pages/trouble-pages.ts'
import { quotaPage } from './pages/quota-page.ts'
import { runPage, runsPage } from './pages/runs-page.ts'
import { schedulePage } from './pages/schedule-page.ts'
import { unitPage, unitsPage } from './pages/unit-page.ts'
import { lastRuns } from './reads/read-runs.ts'
import type { HookReceiver } from '../core/hooks-setting.ts'

const mostBodyBytes = 16 * 1024
const mostUnits = 10_000
const unitsADefaultPage = 500
const mostSearched = 200

/**
 * The page without a server. Answers `/healthz`, `/livez` and `/metrics` besides the pages.
 * @param token null: only loopback has access @param onError gets every error; the visitor only learns that something went wrong
 */
export const createStatusApp = (context: WebContext, token: Secret | null, onError: (error: unknown) => void) => {
  const app = new Hono()
  const access = createAccess({ token, nowMs: () => context.clock.now() })
  const mark = sharedMark(context.kysely)
  const planCache = createPlanCache(context.plan, context.clock, onError)

  app.use(
    secureHeaders({
      contentSecurityPolicy: {
        defaultSrc: ["'none'"],
        styleSrc: ["'self'"],
        scriptSrc: ["'self'"],
        imgSrc: ["'self'"],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
      },
      referrerPolicy: 'same-origin',
      xFrameOptions: 'DENY',
    }),
  )
  app.use(async (request, next) => {
    await next()
    request.header('cache-control', 'no-store')
  })
  // The largest form holds a token; a larger body is refused before it is read.
  app.use(bodyLimit({ maxSize: mostBodyBytes, onError: (request) => request.text('The body is too large.\n', 413) }))
  app.use(async (request, next) =>
    isReadable(request.req.url) ? next() : request.text('The address contains invalid characters.\n', 400),
  )
  app.use('/assets/*', serveStatic({ root: shipped('src', 'web') }))
  const probe = createProbe(context)
  app.get('/healthz', (request) => health(request, probe, 503))
  app.get('/livez', (request) => health(request, probe, 200))
  if (context.hooks !== null) mountHooks(app, context.hooks)
  // A browser names the origin of a form; a form from another site is refused before its body is read.
  app.use(csrf())
  app.get('/login', (request) => access.login(request))
  app.post('/login', (request) => access.login(request))
  app.use(access.guard)
  app.post('/logout', (request) => access.logout(request))
  app.get('/live', async (request) => request.text(await mark()))
  app.get('/metrics', (request) => metrics(request, context, probe))
  mountPages(app, context)
  mountPlan(app, context, planCache)
  mountActions(app, context)
  app.notFound((request) => request.html(notice(context, 'Not found', 'There is nothing at this address.'), 404))
  app.onError((error, request) => {
    if (error instanceof HTTPException) return error.status === 403 ? request.text(fromElsewhere, 403) : error.getResponse()
    // Class 22: the address has a value that no column can hold. The ledger works.
    if (sqlStateOf(error).startsWith('22'))
      return request.html(notice(context, 'Not found', 'There is nothing at this address.'), 404)
    onError(error)
    return request.html(notice(context, 'Not available', 'The ledger could not be read just now; the log says why.'), 503)
  })
  return { app, close: planCache.close }
}

const fromElsewhere =
  'Forbidden: a form must be sent from this page itself. A script uses the command that the page shows beside the button.\n'

/**
 * For probes. Open to all: it shows no figure and no name. 200 while the ledger answers and accepts writes and no tick is overdue; else 503.
 * @param whenAway status while the database is unreachable or read-only: 200 for liveness probes, because a restart would not help.
 */
const health = async (request: Context, probe: Probe, whenAway: 200 | 503): Promise<Response> => {
  const found = await probe()
  if (found === 'away' || found === 'read-only')
    return request.json({ healthy: false, database: found === 'away' ? 'not reachable' : 'accepts no writes' }, whenAway)
  if (found === 'well') return request.json({ healthy: true, database: 'reachable' })
  return request.json({ healthy: false, database: 'reachable', schedule: 'a tick is overdue' }, 503)
}

type Probe = () => Promise<'well' | 'overdue' | 'read-only' | 'away'>

/** Shorter than a probe's timeout; a database that hangs for so long counts as unreachable. */
const probeMs = 1_500

/** Concurrent probes share one query, so that a database that hangs does not use a connection for each. */
const createProbe = ({ kysely, overdue, actions }: WebContext): Probe => {
  let asking: ReturnType<Probe> | null = null
  const ask: Probe = async () => {
    try {
      const refuses = await queryValue<Texts<'refuses'>>(kysely)`select current_setting('transaction_read_only') as refuses`
      // Without `replay` the page only reads, so a standby is fine.
      if (refuses === 'on' && actions.replay !== null) return 'read-only'
      return (await overdue()).length === 0 ? 'well' : 'overdue'
    } catch {
      return 'away'
    } finally {
      asking = null
    }
  }
  return () => {
    asking ??= ask()
    return Promise.race([asking, setTimeout(probeMs, 'away' as const, { ref: false })])
  }
}

const metrics = async (request: Context, context: WebContext, probe: Probe): Promise<Response> => {
  const { type, text } = await ((await probe()) === 'away' ? metricsWithoutLedger() : metricsText(context))
  return request.body(text, 200, { 'content-type': type })
}

const notice = ({ warehouse }: WebContext, title: string, text: string): Html =>
  page({ title, place: '', warehouse, live: false, body: html`<p>${text} <a href="/">To the overview</a></p>` })

/** Whether PostgreSQL could store the address as text: no NUL, valid UTF-8. */
const isReadable = (url: string): boolean => {
  try {
    return !decodeURIComponent(url.replaceAll('+', ' ')).includes('\0')
  } catch {
    return false
  }
}

const mountPages = (app: Hono, web: WebContext): void => {
  const send = async (context: Context, made: Promise<Html | null>) => {
    const found = await made
    return found === null ? context.notFound() : context.html(found)
  }
  app.get('/', (context) => send(context, overviewPage(web)))
  app.get('/coverage', (context) => send(context, coveragePage(web)))
  app.get('/coverage/:pipeline', (context) =>
    send(context, pipelineCoveragePage(web, context.req.param('pipeline'), wholeNumber(context.req.query('offset')) ?? 0)),
  )
  app.get('/coverage/:pipeline/:month{[0-9]{4}-(?:0[1-9]|1[0-2])}', (context) =>
    send(context, Promise.resolve(missingMonthPage(web, context.req.param('pipeline'), context.req.param('month')))),
  )
  app.get('/runs', (context) => send(context, runsPage(web, wholeNumber(context.req.query('before')))))
  app.get('/runs/:id{[0-9]+}', (context) => send(context, runPage(web, numberIn(context))))
  app.get('/units', (context) => {
    const { pipeline, state, month, value } = context.req.query()
    const filter = {
      pipeline: pipeline || undefined,
      state: unitStates.find((one) => one === state),
      month: /^\d{4}-(0[1-9]|1[0-2])$/.test(month ?? '') ? month : undefined,
      value: value?.trim().slice(0, mostSearched) || undefined,
    }
    const limit = Math.max(1, Math.min(wholeNumber(context.req.query('limit')) ?? unitsADefaultPage, mostUnits))
    return send(context, unitsPage(web, filter, limit, wholeNumber(context.req.query('offset')) ?? 0))
  })
  app.get('/units/:id{[0-9]+}', (context) => send(context, unitPage(web, numberIn(context))))
  app.get('/search', (context) => send(context, searchPage(web, (context.req.query('q') ?? '').slice(0, mostSearched))))
  app.get('/reports', (context) => send(context, reportsPage(web)))
  app.get('/quota', (context) => send(context, quotaPage(web)))
  app.get('/quarantine', (context) => send(context, quarantinePage(web)))
  app.get('/tests', (context) => send(context, testsPage(web)))
  app.get('/schedule', (context) => send(context, schedulePage(web)))
}

const mountPlan = (app: Hono, web: WebContext, planCache: PlanCache): void => {
  app.get('/plan', async (context) => {
    const [last] = await lastRuns(web.kysely, 1)
    return context.html(await planPage(web, await planCache.look(Date.parse(last?.finished_at ?? '') || 0)))
  })
  app.post('/plan', (context) => {
    planCache.renew()
    return context.redirect('/plan', 303)
  })
}

const wholeNumber = (text: string | undefined): number | null => {
  const value = Number(text)
  return text !== undefined && text !== '' && Number.isSafeInteger(value) && value >= 0 ? value : null
}

/** Pages that ask within this time share one question to the ledger. */
const sharedMs = 900
/** Most jobs counted in a query; in a larger run, requests and loads show the progress. */
const mostCounted = 10_000

/** Text that differs whenever anything the pages show has changed. */
const ledgerMark = (db: Db): Promise<string> => queryValue<Texts<'mark'>>(db)`
    select concat_ws('/', (select max(load_id) from etl.loads), (select max(event_id) from etl.events),
      (select max(run_id) from etl.runs), (select max(request_id) from etl.requests),
      (select string_agg(r.run_id || ':' || (select count(*) from (select from etl.run_jobs w
          where w.run_id = r.run_id and w.outcome is null limit ${mostCounted}) open), ',' order by r.run_id)
        from etl.runs r where r.state = 'running'),
      (select string_agg(j.job_id || ':' || j.fence, ',' order by j.job_id) from etl.jobs j where j.holder is not null),
      (select count(*) from (select from etl.jobs j where j.state in ('held', 'failed') limit ${mostCounted}) trouble)) as mark`

/** Queries the ledger only when an open page asks. */
const sharedMark = (db: Db): (() => Promise<string>) => {
  let asked: { readonly atMs: number; readonly mark: Promise<string> } | null = null
  return () => {
    const atMs = performance.now()
    if (asked === null || atMs - asked.atMs > sharedMs) asked = { atMs, mark: ledgerMark(db) }
    return asked.mark
  }
}

/** The app limits the size of bodies before they are read. */
const mountHooks = (app: Hono, hooks: HookReceiver): void => {
  app.post('/hooks/:token/releases/:api/:account', (request) =>
    received(request, hooks.token, (body) =>
      hooks.release(param(request, 'api'), param(request, 'account'), body, (name) => request.req.header(name) ?? null),
    ),
  )
  app.post('/hooks/:token/reports/:job', (request) =>
    received(request, hooks.token, (body) => {
      const job = param(request, 'job')
      return /^\d{1,15}$/.test(job) ? hooks.report(Number(job), body) : Promise.resolve(404)
    }),
  )
  // No login page for guessed paths, and the same reply for a wrong token and a wrong path.
  app.all('/hooks/*', nothingHere)
}

const param = (request: Context, name: string): string => request.req.param(name) ?? ''

const nothingHere = (request: Context): Response => request.text('There is nothing at this address.\n', 404)

const received = async (request: Context, token: Secret, take: (body: unknown) => Promise<number>): Promise<Response> => {
  if (!equal(token.reveal(), param(request, 'token'))) return nothingHere(request)
  const body = jsonOrNull(await request.req.text())
  if (body === null) return request.text('Expected JSON.\n', 400)
  const status = await take(body)
  return new Response(null, { status, headers: status === 503 ? { 'retry-after': '30' } : {} })
}
