// The status page's answers: figures equal the ledger's, who may look, what an action writes, what stands in the metrics.
import { setTimeout } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { shippedDefinitions } from '../support/definitions.ts'
import { EtlError } from '../../src/core/errors.ts'
import type { NightPlan } from '../../src/web/plan-cache.ts'
import { testDatabase } from '../support/postgres.ts'
import { addUnits, emptyLedger, fillLedger, nightPlan, pageToken, type ServedPage, servePage } from '../support/status-page.ts'

const db = testDatabase({ each: true })
let page: ServedPage | null = null

afterEach(async () => {
  await page?.close()
  page = null
})

const serve = async (options: Parameters<typeof servePage>[1] = {}): Promise<string> => {
  page = await servePage(db, options)
  return page.url
}
const text = async (url: string): Promise<string> => (await fetch(url)).text()
const one = async <T>(query: string): Promise<T> => (await db.query(query))[0] as T
const definedNames = new Set((await shippedDefinitions()).map(({ pipeline }) => pipeline))
const places = ['/', '/coverage', '/coverage/keywords', '/coverage/keywords/2025-01', '/runs', '/runs/1', '/units', '/units/1', '/plan', '/reports', '/quota', '/quarantine', '/tests', '/schedule', '/search?q=a', '/metrics'] // biome-ignore format: one look

describe('the pages', () => {
  test('every place answers for an empty, a loaded, a failing and a running warehouse', async () => {
    const url = await serve()
    for (const scenery of ['empty', 'loaded', 'failing', 'running'] as const) {
      await emptyLedger(db)
      await fillLedger(db, scenery)
      for (const place of places) {
        const answer = await fetch(url + place)
        const missing = scenery === 'empty' && /^\/(runs|units)\/1$/.test(place)
        expect(answer.status, `${scenery} ${place}`).toBe(missing ? 404 : 200)
      }
    }
    expect(page?.errors).toEqual([])
  })

  test('the overview counts what the ledger counts and says what mends each unit', async () => {
    await fillLedger(db, 'failing')
    const overview = await text(await serve())
    const counts = await one<{ loaded: string; held: string; failed: string }>(`select
      count(*) filter (where state = 'loaded') as loaded, count(*) filter (where state = 'held') as held,
      count(*) filter (where state = 'failed') as failed from etl.unit_list`)
    for (const [state, n] of Object.entries(counts))
      expect(overview).toContain(`<strong>${n}</strong> <a href="/units?state=${state}">`)
    expect(overview).toContain('millrace release 1')
    expect(overview).toContain('millrace run keywords --resubmit-uncertain')
    expect(overview).toContain('1 failed, 2 held')
  })

  test('what waits for approval alone is no trouble: the overview says so, and that no other action is needed', async () => {
    await fillLedger(db, 'loaded')
    const { pool } = db.database
    await pool.query(`insert into etl.approvals (pipeline_id, kind, reasons, window_from, window_to, units, reports, credits, allowed)
      values (1, 'night', '{"new value": 2}', '2026-08-01', '2026-09-01', 2, 1, 12, 6)`)
    await pool.query(`insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, account, guard, error_code, approval_id, estimated_quota)
      values (1, 'report', 'new', '2026-08-01', '2026-09-01', '{1,2}', 2, 'held', 'default', 'needs approval', 'NEEDS_APPROVAL', 1, 12)`)
    await pool.query(`update etl.units set job_id = (select max(job_id) from etl.jobs) where window_from = '2026-08-01'`)
    const overview = await text(await serve())
    expect(overview).toContain('<p class="verdict warn">2 waiting for approval. Last run:')
    expect(overview).toContain('npx millrace approve keywords')
    expect(overview).toContain('No other unit needs action.')
    // The rest of the month is as it was: N of M, no warning and nothing late.
    expect(overview).toContain('2026-08: loaded, restated since, 2 of 2 units')
    expect(overview).not.toMatch(/<li class="(held|failed)( year)?"/)
    // The price stands beside the button, and the form approves what was shown.
    expect(overview).toMatch(/href="\/approvals\/1\/approve">Approve…<\/a> <span class="soft">about 12 credits</)
    const url = await serve()
    expect(await text(`${url}/approvals/1/approve`)).toContain('Buy them for about 12 credits')
    const act = () => fetch(`${url}/approvals/1/approve`, { method: 'POST', headers: { origin: url, 'content-type': 'application/x-www-form-urlencoded' } }) // biome-ignore format: one look
    // A script that is not told from another page is told what to use.
    const foreign = await fetch(`${url}/approvals/1/approve`, { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' } }) // biome-ignore format: one look
    expect([foreign.status, await foreign.text()]).toEqual([403, expect.stringContaining('A script uses the command')])
    expect((await act()).status).toBe(200)
    expect((await pool.query('select state, decided_by from etl.approvals')).rows).toEqual([{ state: 'approved', decided_by: 'status page' }]) // biome-ignore format: one look
    expect((await act()).status).toBe(404)
  })

  test('an approval that a later run asks for under another number is found from the former one, and asks again', async () => {
    await fillLedger(db, 'loaded')
    const { pool } = db.database
    for (const [state, credits] of [
      ['dissolved', 12],
      ['waiting', 20],
    ] as const)
      await pool.query(`insert into etl.approvals (pipeline_id, kind, state, reasons, window_from, window_to, units, reports, credits, allowed)
        values (1, 'night', '${state}', '{"new value": 2}', '2026-08-01', '2026-09-01', 2, 1, ${credits}, 6)`)
    const url = await serve()
    const asked = await fetch(`${url}/approvals/1/approve`)
    expect([asked.url, await asked.text()]).toEqual([`${url}/approvals/2/approve`, expect.stringContaining('Buy them for about 20 credits')]) // biome-ignore format: one look
    const acted = await fetch(`${url}/approvals/1/approve`, { method: 'POST', redirect: 'manual', headers: { origin: url, 'content-type': 'application/x-www-form-urlencoded' } }) // biome-ignore format: one look
    expect([acted.status, acted.headers.get('location')]).toEqual([303, '/approvals/2/approve'])
    expect((await pool.query(`select 1 from etl.approvals where state = 'approved'`)).rowCount).toBe(0)
  })

  test('a form approves what it showed: where more waits by then, under whatever number, it is asked again', async () => {
    await fillLedger(db, 'loaded')
    const { pool } = db.database
    const waits = (approval: number, kind: string, credits: number) =>
      pool.query(`with word as (insert into etl.approvals (pipeline_id, kind, reasons, window_from, window_to, units, reports, credits, allowed)
          values (1, '${kind}', '{"new value": 2}', '2026-08-01', '2026-09-01', 2, 1, ${credits}, 6))
        insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, account, guard, error_code, approval_id, estimated_quota)
        values (1, 'report', 'new', '2026-08-01', '2026-09-01', '{1,2}', 2, 'held', 'default', 'needs approval', 'NEEDS_APPROVAL', ${approval}, ${credits})`)
    await waits(1, 'night', 12)
    const url = await serve()
    const address = `${url}/approvals/1/approve`
    const send = (shown: string) =>
      fetch(address, { method: 'POST', redirect: 'manual', headers: { origin: url }, body: new URLSearchParams({ shown }) })
    const shownBy = async (): Promise<string> => /name="shown" value="([^"]+)"/.exec(await text(address))?.[1] ?? ''
    const before = await shownBy()
    await waits(2, 'backfill', 9_000)
    const acted = await send(before)
    expect([acted.status, acted.headers.get('location')]).toEqual([303, '/approvals/1/approve'])
    expect((await pool.query(`select 1 from etl.approvals where state = 'approved'`)).rowCount).toBe(0)
    expect((await send(await shownBy())).status).toBe(200)
    expect((await pool.query(`select 1 from etl.approvals where state = 'approved'`)).rowCount).toBe(2)
  })

  test('the overview says up to which month a pipeline is complete, what was restated and what the nights brought', async () => {
    await fillLedger(db, 'loaded')
    // The newest month is expected by the tenth.
    const today = new Date()
    const twentieth = Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), 20)
    const url = await serve({ now: () => Math.max(Date.now(), twentieth) })
    const complete = '<strong class="upto">2026-10</strong> <span class="soft">since 2026-08 without a gap</span>'
    const overview = await text(url)
    expect(overview).toContain(complete)
    // Nothing is wrong with what was loaded, but others were never loaded.
    expect(overview).toMatch(/<p class="verdict warn">Overdue: .*traffic_and_engagement \d{4}-\d\d\./)
    for (const words of ['2026-08: loaded, restated since, 2 of 2 units', '2026-10: loaded, 2 of 2 units', '2026-07: missing'])
      expect(overview).toContain(words)
    expect(overview).toMatch(/rows by night: 2,400 in 30 nights, most 2,400 on \d{4}-\d\d-\d\d/)
    expect(overview).toContain('<time datetime="2027-01-01T01:30:00.000Z">2027-01-01 01:30 UTC</time>')
    // A version that is filled beside the published one wants months that nobody misses yet.
    const { pool } = db.database
    await pool.query(`insert into etl.published_versions (pipeline, version, published_at) values ('keywords', 1, '-infinity')`)
    await pool.query(`insert into etl.pipelines (pipeline, version, parameters, source, account, window_every, dimensions, generation, definition)
      select pipeline, 2, parameters, source, account, window_every, dimensions, generation, definition from etl.pipelines where pipeline_id = 1`)
    expect(await text(url)).toContain(complete)
    // A slice that came to the lists since leaves no month complete, whether its windows are closed or not.
    await db.database.pool.query(`insert into etl.slices (pipeline_id, "values", wanted_since) values (1, '{c.com,us}', 2)`)
    await db.database.pool.query('update etl.pipelines set generation = 2')
    const grown = await text(url)
    expect(grown).toContain('2026-10: partly loaded, 2 of 3 units')
    expect(grown).toContain('<strong class="upto">2026-10</strong> <span class="soft">2 of 3 units</span>')
    const close = (generation: number, units: number) =>
      db.database.pool.query(
        `insert into etl.windows (pipeline_id, window_from, closed_generation, closed_units, closed_rows)
         select distinct 1, window_from, ${generation}, ${units}, 0 from etl.units
         on conflict (pipeline_id, window_from) do update set closed_generation = excluded.closed_generation, closed_units = excluded.closed_units`,
      )
    await close(1, 3)
    expect(await text(url)).toContain('no month yet')
    await close(2, 3)
    expect(await text(url)).toContain(complete)
  })

  test('a unit tells what happened to it from the plan to its rows, and where they come from', async () => {
    await fillLedger(db, 'loaded')
    const story = await text(`${await serve()}/units/1`)
    const steps = [...story.matchAll(/class="badge (planned|landed|revised)"/g)].map(([, step]) => step)
    expect(steps.toSorted()).toEqual(['landed', 'planned', 'revised'])
    expect(story).toContain('answer #1, loaded, 1.0 kB for this slice: good')
    expect(story).toContain('400 rows parsed; 390 inserted, 10 updated')
    expect(story).toMatch(
      /<code>pipelines\/keywords.yaml<\/code> → job #1 → answer #1 → <code>data.keywords_v1<\/code> → <code>bi.keywords<\/code>/,
    )
  })

  test('units that were cut at their limit are said to be: with their pipeline and with the unit', async () => {
    await fillLedger(db, 'loaded')
    const url = await serve()
    expect(await text(url)).not.toContain('capped')
    expect(await text(`${url}/units/1`)).not.toContain('capped')
    await db.database.pool.query(`insert into etl.cut_units (unit_id, answer_id, row_limit) values (1, 1, 400), (2, 999, 400)`)
    expect(await text(url)).toMatch(/keywords.{0,80}rows<\/span><br><span class="soft">1 unit capped<\/span>/s)
    expect(await text(`${url}/units/1`)).toContain('400, capped at the limit: there may be more')
    expect(await text(`${url}/units/2`)).not.toContain('capped')
  })

  test('a run shows its arguments as words; a search finds slices by the beginning of their first value', async () => {
    await fillLedger(db, 'loaded')
    const url = await serve()
    expect(await text(`${url}/runs/1`)).toContain('<dd>keywords, 2026-08 to 2026-10</dd>')
    const found = await text(`${url}/search?q=A.c`)
    expect(found).toContain('a.com · us')
    expect(found).not.toContain('b.com')
    expect(found).toMatch(/title="2026-08: loaded, restated since"><a class="to" href="\/units\/1">/)
    expect(await text(`${url}/search?q=nobody`)).toContain('No slice begins with it')
  })

  test('what the service sent is shown as text, never as markup', async () => {
    await fillLedger(db, 'failing')
    const url = await serve()
    for (const place of ['/', '/units/1', '/quarantine', '/tests']) {
      const body = await text(url + place)
      expect(body).not.toContain('<script>alert')
      expect(body).not.toContain('<b>60 %')
    }
    expect(await text(`${url}/quarantine`)).toContain('&lt;script&gt;alert(1)&lt;/script&gt;,12x')
  })

  test('whatever a pipeline, a slice or a tag is called, it is text and leads where it should', async () => {
    await fillLedger(db, 'failing')
    const odd = `a/b?c#d&"e'<img src=x onerror=alert(3)>`
    await db.database.pool.query('update etl.pipelines set pipeline = $1', [odd])
    await db.database.pool.query(`update etl.slices set "values" = array[$1::text, 'us'] where slice_id = 1`, [odd])
    const url = await serve()
    for (const place of [...places, `/search?q=${encodeURIComponent(odd)}`]) {
      if (place.startsWith('/coverage/') || place === '/metrics') continue
      const body = await text(url + place)
      expect(body, place).not.toContain('<img')
      for (const [, href = ''] of body.matchAll(/ href="([^"]*)"/g)) {
        const to = new URL(href.replaceAll('&amp;', '&').replaceAll('&#39;', "'"), url)
        if (to.pathname.startsWith('/coverage/') && !definedNames.has(decodeURIComponent(to.pathname.split('/')[2] ?? '')))
          expect(decodeURIComponent(to.pathname.slice('/coverage/'.length)).startsWith(odd), href).toBe(true)
        const pipeline = to.searchParams.get('pipeline')
        if (to.pathname === '/units' && pipeline !== null && !definedNames.has(pipeline)) expect(pipeline, href).toBe(odd)
      }
    }
    expect((await fetch(`${url}/coverage/${encodeURIComponent(odd)}`)).status).toBe(200)
    expect(page?.errors).toEqual([])
  })

  test.each([0, 30])('%i pipelines: every place answers', async (pipelines) => {
    await fillLedger(db, 'failing')
    await db.database.pool.query(
      `insert into etl.pipelines (pipeline, version, parameters, source, account, window_every, dimensions, generation, definition)
       select 'p' || n, 1, '{}', 'web-analytics.keywords', 'default', 'month', '{domain,country}', 1, '{}' from generate_series(1, $1::int) n`,
      [pipelines],
    )
    page = await servePage(db, { definitions: [] })
    for (const place of places) {
      const missing = place === '/coverage/keywords/2025-01'
      expect((await fetch(page.url + place)).status, place).toBe(missing ? 404 : 200)
    }
    expect(page.errors).toEqual([])
  })

  test('coverage tells loaded, restated, held, failed, missing and not yet published apart', async () => {
    await fillLedger(db, 'failing')
    const body = await text(`${await serve()}/coverage/keywords`)
    for (const words of ['2026-08: held', '2026-08: failed', '2026-09: loaded', '2024-01: missing']) expect(body).toContain(words)
    expect(body).toContain('href="/units/4"')
    expect(body).toContain('href="/coverage/keywords/2024-01"')
    expect(body).toContain('<a href="/units?pipeline=keywords&amp;state=held">2 held</a>')
    expect(await text(`${page?.url}/`)).toContain(': not published yet, or before window.from')
    await db.database.pool.query('update etl.units set job_id = null, held_answer_id = null')
    expect(await text(`${page?.url}/coverage/keywords`)).toContain('2026-08: loaded, restated since')
  })

  test('the plan shows what the next run would ask for, what waits, and why a dry run ended without one', async () => {
    await fillLedger(db, 'loaded')
    const tries: (() => Promise<NightPlan>)[] = [
      () => Promise.reject(new EtlError('KEY_REFUSED', 'The service refuses the key <b>.')),
      async () => nightPlan,
    ]
    let dryRuns = 0
    page = await servePage(db, { plan: () => tries[dryRuns++]?.() ?? Promise.reject(new Error('one more than was asked for')) })
    const { url } = page
    expect(await text(`${url}/plan`)).toContain('The dry run failed: The service refuses the key &lt;b&gt;.')
    const again = await fetch(`${url}/plan`, {
      method: 'POST',
      headers: { origin: url, 'content-type': 'application/x-www-form-urlencoded' },
    })
    const shown = await again.text()
    expect(again.url).toBe(`${url}/plan`)
    for (const words of [
      'The next run loads 2 units: 0 reports, 6 requests, about 6 credits.',
      'with 7 free requests; nothing was bought or written',
      'waits for approval',
      'new value',
      '2026-01 to 2026-10',
      '1 added, 0 removed',
      '<code>5</code> to <code>3</code>',
    ])
      expect(shown).toContain(words)
    await text(`${url}/plan`)
    expect(dryRuns).toBe(2)
  })

  test('a dry run that is at work is asked for once, and whoever leaves before it ends stops it', async () => {
    let [dryRuns, stopped] = [0, false]
    page = await servePage(db, {
      plan: (signal) => {
        dryRuns += 1
        return new Promise((_, reject) =>
          signal.addEventListener('abort', () => {
            stopped = true
            reject(new Error('stopped'))
          }),
        )
      },
    })
    const shown = await Promise.all([text(`${page.url}/plan`), text(`${page.url}/plan`)])
    for (const one of shown) expect(one).toContain('The dry run is in progress')
    expect(dryRuns).toBe(1)
    await page.close()
    expect([stopped, page.errors]).toEqual([true, []])
    page = null
  })

  test('credits stand by account, pipeline, tag and night, and by day with the budget', async () => {
    await fillLedger(db, 'failing')
    await db.database.pool.query(`update etl.jobs set used_quota = 40, asked_at = now() where report_state is not null`)
    await db.database.pool.query(`insert into etl.tag_sets (tags) values ('{"client": "acme"}')`)
    const window = (await shippedDefinitions()).find(({ pipeline }) => pipeline === 'keywords')?.window
    await db.database.pool.query(
      `update etl.pipelines set tag_set_id = (select max(tag_set_id) from etl.tag_sets), definition = jsonb_build_object('window', $1::jsonb)`,
      [JSON.stringify(window)],
    )
    const definitions = (await shippedDefinitions()).map((one) => ({ ...one, limits: { ...one.limits, quotaPerDay: 100 } }))
    page = await servePage(db, { definitions })
    const shown = await text(`${page.url}/quota`)
    expect(shown).toMatch(/<strong>40<\/strong> credits spent/)
    for (const words of ['By account, 20', 'By pipeline, 20', 'By tag', 'acme', 'credits by night: 40 in 30 nights'])
      expect(shown).toContain(words)
    expect(shown).toMatch(
      /role="img" aria-label="keywords: credits by day"[\s\S]*<title>20\d\d-\d\d-\d\d: 40 used, \w+<[\s\S]*stroke-dasharray/,
    )
  })

  test('metrics equal the ledger', async () => {
    await fillLedger(db, 'failing')
    await db.database.pool.query(`insert into etl.notifications (cause, kind, severity, message, raised_at)
      values ('a', 'late', 'critical', 'late', now()), ('b', 'late', 'critical', 'late', now())`)
    const metrics = await text(`${await serve({ overdue: async () => ['keywords'] })}/metrics`)
    expect(metrics).toContain('millrace_alarms_open{kind="late",severity="critical"} 2')
    expect(metrics).toContain('millrace_ticks_overdue 1')
    expect(metrics).toContain('millrace_units{pipeline="keywords",state="held"} 2')
    expect(metrics).toContain('millrace_units{pipeline="keywords",state="loaded"} 3')
    expect(metrics).toContain('millrace_rows{pipeline="keywords"} 2390')
    expect(metrics).toContain('millrace_reports_open{state="uncertain"} 1')
    expect(metrics).toContain('millrace_quarantined_rows{pipeline="keywords"} 2')
  })

  test('10,000 units come on one page, and 100,000 in the ledger leave the first view quick to make', async () => {
    await fillLedger(db, 'loaded')
    await addUnits(db, '2026-01-01', 100_000)
    const url = await serve()
    expect((await text(`${url}/units?limit=10000`)).match(/<tr>/g)?.length).toBe(10_001)
    expect(await text(`${url}/units?value=a.com&month=2026-08`)).toContain('<p>1 unit.')
    const ofOneCountry = await text(`${url}/units?value=us&limit=2`)
    expect(ofOneCountry).toContain('<p>100,006 units, 1 to 2 shown.')
    expect(ofOneCountry).toContain('href="/units?limit=2&amp;offset=2&amp;value=us">More')
    const started = performance.now()
    expect(await text(url)).toContain('<strong>100,006</strong>')
    process.stderr.write(`overview over 100,006 units: ${Math.round(performance.now() - started)} ms\n`)
    const searched = performance.now()
    expect(await text(`${url}/search?q=b.com`)).toContain('b.com · us')
    process.stderr.write(`search among 100,002 slices: ${Math.round(performance.now() - searched)} ms\n`)
  })
})

describe('who may look', () => {
  test('without a token only the name of this machine is answered, so that no foreign page reads through a name of its own', async () => {
    const url = new URL(await serve())
    const { request } = await import('node:http')
    const status = await new Promise<number | undefined>((resolve, reject) =>
      request({ host: url.hostname, port: url.port, path: '/', headers: { host: 'evil.example' } }, (answer) => {
        answer.resume()
        resolve(answer.statusCode)
      })
        .on('error', reject)
        .end(),
    )
    expect(status).toBe(421)
  })

  test('with a token nothing is shown before it, it opens by form or header, and is in no address', async () => {
    await fillLedger(db, 'loaded')
    const url = await serve({ token: true })
    for (const place of places) {
      const answer = await fetch(url + place, { headers: { accept: 'text/html' }, redirect: 'manual' })
      expect([answer.status, answer.headers.get('location')], place).toEqual([303, '/login'])
      expect((await fetch(`${url}${place}?token=${pageToken}`)).status).toBe(401)
    }
    expect((await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${pageToken}` } })).status).toBe(200)
    const form = await fetch(`${url}/login`, {
      method: 'POST',
      body: new URLSearchParams({ token: pageToken }),
      headers: { origin: url },
      redirect: 'manual',
    })
    const cookie = form.headers.get('set-cookie') ?? ''
    expect(cookie).toMatch(/HttpOnly/)
    expect(cookie).toMatch(/SameSite=Strict/)
    expect(cookie).not.toContain(pageToken)
    const inside = await fetch(url, { headers: { cookie: cookie.split(';')[0] ?? '' } })
    expect(inside.status).toBe(200)
    expect(await inside.text()).not.toContain(pageToken)
  })

  test('wrong tokens slow down their sender, and the owner comes in all the same', async () => {
    const url = await serve({ token: true })
    const ask = async (token: string) => (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).status
    for (let at = 0; at < 10; at += 1) expect(await ask(`wrong-${at}`)).toBe(401)
    expect(await ask('wrong again')).toBe(429)
    expect(await ask(pageToken)).toBe(200)
    const login = (token: string) =>
      fetch(`${url}/login`, {
        method: 'POST',
        body: new URLSearchParams({ token }),
        headers: { origin: url },
        redirect: 'manual',
      })
    expect((await login('wrong')).status).toBe(429)
    expect((await login(pageToken)).status).toBe(303)
  })

  test('a body that no form has is refused before it is read, said to be as long or not', async () => {
    const url = await serve({ token: true })
    const big = 150_000_000
    const before = process.memoryUsage.rss()
    const status = async (headers: Record<string, string>, pieces: number): Promise<number> => {
      const { request } = await import('node:http')
      return new Promise((resolve, reject) => {
        const sent = request(
          `${url}/login`,
          { method: 'POST', headers: { origin: url, 'content-type': 'application/x-www-form-urlencoded', ...headers } },
          (answer) => {
            answer.resume()
            resolve(answer.statusCode ?? 0)
            sent.destroy()
          },
        )
        sent.on('error', reject)
        const chunk = Buffer.alloc(1_000_000, 'a')
        const more = (left: number): void => {
          if (left === 0) sent.end()
          else if (sent.write(chunk)) more(left - 1)
          else sent.once('drain', () => more(left - 1))
        }
        more(pieces)
      })
    }
    expect(await status({ 'content-length': String(big) }, 150)).toBe(413)
    expect(await status({ 'transfer-encoding': 'chunked' }, 150)).toBe(413)
    expect(process.memoryUsage.rss() - before).toBeLessThan(120_000_000)
  })

  test('numbers that no row has are not found, bytes that no text has are refused', async () => {
    const url = await serve()
    const status = async (place: string) => (await fetch(url + place)).status
    for (const place of [
      '/units/99999999999999999999999',
      '/units/9007199254740993',
      '/runs/99999999999999999999999',
      '/units/99999999999999999999999/retry',
      '/coverage/keywords/2026-13',
      '/coverage/keywords/2026-00',
    ])
      expect(await status(place), place).toBe(404)
    expect(await status('/units/9007199254740991')).toBe(404)
    for (const place of ['/units?pipeline=%00', '/coverage/%00', '/units?month=%ff', '/units?pipeline=a%C3'])
      expect(await status(place), place).toBe(400)
    expect(await status('/units?limit=99999999999999999999&offset=99999999999999')).toBe(200)
  })

  test('the headers let nothing in from elsewhere', async () => {
    const { headers } = await fetch(await serve())
    const policy = headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('unsafe')
    expect(headers.get('cache-control')).toBe('no-store')
  })
})

describe('actions', () => {
  test('a question changes nothing; the form releases, retries, cancels, and each stands in the events', async () => {
    await fillLedger(db, 'failing')
    const url = await serve()
    const states = () => db.query('select unit_id::int, state from etl.unit_list where unit_id <= 2 order by 1')
    for (const place of ['/units/1/release', '/units/2/retry', '/runs/1/cancel'])
      expect((await fetch(url + place)).status).toBe(200)
    expect(await states()).toEqual([{ unit_id: 1, state: 'held' }, { unit_id: 2, state: 'failed' }]) // biome-ignore format: one look
    const act = (place: string, origin = url) =>
      fetch(url + place, { method: 'POST', headers: { origin, 'content-type': 'application/x-www-form-urlencoded' } })
    for (const place of ['/units/1/release', '/units/2/retry', '/runs/1/cancel']) expect((await act(place)).status).toBe(200)
    expect(await states()).toEqual([{ unit_id: 1, state: 'landed' }, { unit_id: 2, state: 'planned' }]) // biome-ignore format: one look
    expect(await db.query('select kind, unit_id::int, run_id::int from etl.events order by event_id')).toEqual([
      { kind: 'released', unit_id: 1, run_id: null },
      { kind: 'retried', unit_id: 2, run_id: null },
      { kind: 'cancelled', unit_id: null, run_id: 1 },
    ])
    expect((await act('/units/1/release')).status).toBe(409)
  })

  test('each button has its price beside it and in its form: a bought report and a kept answer cost nothing, what is asked for again costs its price', async () => {
    await fillLedger(db, 'failing')
    const { pool } = db.database
    const url = await serve()
    const beside = async (place: string, name: string): Promise<string | undefined> =>
      new RegExp(`>${name}…</a> <span class="soft">([^<]+)<`).exec(await text(url + place))?.[1]
    expect(await beside('/units/1', 'Release')).toBe('0 credits')
    expect(await text(`${url}/units/1/release`)).toContain('Release it for 0 credits')
    // A page of keywords has no bill yet.
    expect(await beside('/units/2', 'Retry')).toBe('price not known')
    expect(await text(`${url}/units/2/retry`)).toContain('Plan it again at an unknown price')
    await pool.query(`update etl.jobs set kind = 'report', estimated_quota = 40, report_state = 'failed' where job_id = 7`)
    for (const place of ['/', '/units/2']) expect(await beside(place, 'Retry'), place).toBe('about 40 credits')
    expect(await text(`${url}/units/2/retry`)).toContain('Plan it again for about 40 credits')
    await pool.query(`update etl.jobs set report_id = 'r-1' where job_id = 7`)
    expect(await beside('/units/2', 'Retry')).toBe('0 credits')
    await emptyLedger(db)
    await fillLedger(db, 'running')
    for (const place of ['/', '/runs/2']) expect(await beside(place, 'Cancel'), place).toBe('0 credits')
    expect(await text(`${url}/runs/2/cancel`)).toContain('Cancel it for 0 credits')
  })

  test('a month is replayed by a form of its unit, where the process reads landings; another site cannot', async () => {
    await fillLedger(db, 'failing')
    const begun: string[] = []
    const url = await serve({ replay: (pipeline, month) => begun.push(`${pipeline} ${month}`) === 1 })
    expect(await text(`${url}/units/1`)).toMatch(/href="\/units\/1\/replay">Replay…<\/a> <span class="soft">0 credits</)
    expect(await text(`${url}/units/1/replay`)).toContain('Replay it for 0 credits')
    const act = async (origin: string): Promise<number> =>
      (
        await fetch(`${url}/units/1/replay`, {
          method: 'POST',
          headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
        })
      ).status
    expect(await act('https://evil.example')).toBe(403)
    expect(begun).toEqual([])
    // The second one finds the first at work.
    expect([await act(url), await act(url)]).toEqual([200, 409])
    expect(begun).toEqual(['keywords 2026-08', 'keywords 2026-08'])
    await page?.close()
    const reader = await serve()
    expect(await text(`${reader}/units/1`)).not.toContain('/replay"')
    expect((await fetch(`${reader}/units/1/replay`)).status).toBe(404)
  })

  test('a form sent from another site is refused and changes nothing', async () => {
    await fillLedger(db, 'failing')
    const url = await serve()
    for (const origin of ['https://evil.example', 'null']) {
      const answer = await fetch(`${url}/units/1/release`, {
        method: 'POST',
        headers: { origin, 'content-type': 'application/x-www-form-urlencoded' },
      })
      expect(answer.status).toBe(403)
    }
    const bare = await fetch(`${url}/units/1/release`, { method: 'POST' })
    expect(bare.status).toBe(403)
    expect((await one<{ state: string }>('select state from etl.unit_list where unit_id = 1')).state).toBe('held')
  })
})

test('the mark that pages follow is another one when the ledger changes, and only then', async () => {
  await fillLedger(db, 'loaded')
  const url = await serve()
  const mark = () => text(`${url}/live`)
  const before = await mark()
  await setTimeout(1_000)
  expect(await mark()).toBe(before)
  await db.database.pool.query(`insert into etl.events (kind, message) values ('test', 'something happened')`)
  await expect.poll(mark, { timeout: 30_000 }).not.toBe(before)
})
