// The status page in a real browser: each view with each warehouse, by keyboard, in light and dark, without scripts, with no
// finding of axe and no error on the console. Left out, visibly, where there is no Chromium.
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import type { NightPlan } from '../../src/web/plan-cache.ts'
import { addUnits, fillLedger, nightPlan, pageToken, type ServedPage, servePage } from '../support/status-page.ts'

/** Runs in the page: labels without a value, words of charts that cannot be read, headers that are scrolled away. */
const troublesOfPhone = `(() => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.getClientRects().length > 0)
  const leftOf = (one) => one.getBoundingClientRect().left
  return [
    ...shown('.stack td').filter((cell) => cell.textContent === '').map((cell) => cell.dataset.label + ' has no value'),
    ...shown('figure text').filter((text) => text.getBoundingClientRect().height < 8).map((text) => text.textContent + ' is too small'),
    ...[0, -9_999, 9_999].flatMap((left) => shown('.chart:has(.lanes)').flatMap((chart) => {
      chart.querySelector('.scroll').scrollLeft = left
      return [...chart.querySelectorAll('li')].filter((lane) => leftOf(lane) < 0 || lane.getBoundingClientRect().right > innerWidth).map((lane) => lane.textContent + ' is out of view')
    })),
    ...shown('label[for]').filter((label) => Math.abs(label.getBoundingClientRect().top - document.getElementById(label.htmlFor).getBoundingClientRect().top) > 15).map((label) => label.textContent + ' is not beside its field'),
    ...shown('.newest').filter((region) => leftOf(region.querySelector('thead th')) < leftOf(region)).map(() => 'the first header is cut'),
  ]
})()`

const executable = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
/** A folder to keep pictures in, for a look and for the docs. */
const pictures = process.env['SCREENSHOTS']

let browser: Browser
let db: TestDatabase
let served: ServedPage | null = null
let problems: string[] = []

const places = ['/', '/coverage', '/coverage/keywords', '/runs', '/runs/1', '/units', '/units/1', '/units/1/release', '/plan', '/reports', '/quota', '/quarantine', '/tests', '/schedule', '/search?q=a'] // biome-ignore format: one look

describe.skipIf(!existsSync(executable))('the status page in a browser', () => {
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: executable, args: ['--no-sandbox'] })
  })
  afterAll(() => browser.close())
  beforeEach(async () => {
    db = await createTestDatabase()
    problems = []
  })
  afterEach(async () => {
    for (const context of browser.contexts()) await context.close()
    await served?.close()
    served = null
    await db.drop()
  })

  const open = async (options: BrowserContextOptions = {}): Promise<Page> => {
    const context = await browser.newContext(options)
    const page = await context.newPage()
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text())
    })
    page.on('pageerror', (error) => problems.push(error.message))
    return page
  }

  const findings = async (page: Page): Promise<string[]> => {
    await page.evaluate(axeSource)
    return page.evaluate(async () => {
      interface Finding {
        readonly id: string
        readonly nodes: readonly { readonly html: string }[]
      }
      const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: readonly Finding[] }> } }
      const { violations } = await axe.run()
      return violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 120)}`)
    })
  }

  test.each(['empty', 'loaded', 'failing', 'running'] as const)('%s warehouse: every view without a finding', async (scenery) => {
    await fillLedger(db, scenery)
    served = await servePage(db)
    // The failing one shows every colour there is, hence dark there alone.
    for (const colorScheme of scenery === 'failing' ? (['light', 'dark'] as const) : (['light'] as const)) {
      const page = await open({ colorScheme, viewport: { width: 1100, height: 750 } })
      for (const place of places) {
        if (scenery === 'empty' && /\/1/.test(place)) continue
        await page.goto(served.url + place)
        expect(await page.locator('h1').count(), place).toBe(1)
        expect(await findings(page), `${scenery} ${place} ${colorScheme}`).toEqual([])
        if (pictures !== undefined) {
          mkdirSync(pictures, { recursive: true })
          await page.screenshot({ path: `${pictures}/${scenery}${place.replaceAll('/', '-')}-${colorScheme}.png` })
        }
      }
      await page.context().close()
    }
    expect(problems).toEqual([])
    expect(served.errors).toEqual([])
  })

  test('on a phone no view scrolls sideways, and times are in the zone of the reader', async () => {
    await fillLedger(db, 'failing')
    served = await servePage(db)
    const page = await open({ viewport: { width: 360, height: 740 }, timezoneId: 'Europe/Berlin', colorScheme: 'light' })
    const wide: string[] = []
    for (const place of places) {
      await page.goto(served.url + place)
      const width = await page.evaluate<number>('document.documentElement.scrollWidth')
      if (width > 360) wide.push(`${place} ${width}`)
    }
    expect(wide).toEqual([])
    for (const place of ['/', '/plan', '/runs', '/schedule']) {
      await page.goto(served.url + place)
      if (place !== '/runs')
        await page
          .getByText(/^2027-01-01 02:30 (CET|GMT\+1)$/)
          .first()
          .waitFor()
      const times = await page.locator('time').allTextContents()
      expect(
        times.filter((text) => !/ (CEST|CET|GMT\+[12])$/.test(text)),
        place,
      ).toEqual([])
    }
    expect(problems).toEqual([])
  })

  test('on a phone no header is cut, no label is alone, and the words of charts can be read', async () => {
    await fillLedger(db, 'failing')
    served = await servePage(db)
    const page = await open({ viewport: { width: 390, height: 844 } })
    const wrong: string[] = []
    for (const place of places) {
      await page.goto(served.url + place)
      const found = await page.evaluate<string[]>(troublesOfPhone)
      wrong.push(...found.map((one) => `${place}: ${one}`))
      if (place === '/quota' || place === '/runs') expect(await findings(page), place).toEqual([])
    }
    expect(wrong).toEqual([])
  })

  test('a held unit is found, questioned and released with the keyboard alone', async () => {
    await fillLedger(db, 'failing')
    served = await servePage(db)
    const page = await open()
    await page.goto(served.url)
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content')
    await page.getByRole('link', { name: 'Release…' }).first().focus()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Release it' }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('Released. A running schedule or worker resumes it, otherwise the next run.').waitFor()
    expect((await db.database.pool.query(`select state from etl.unit_list where unit_id = 1`)).rows).toEqual([
      { state: 'landed' },
    ])
    expect(problems).toEqual([])
  })

  test('a change in the ledger shows by itself', async () => {
    await fillLedger(db, 'running')
    served = await servePage(db)
    const page = await open()
    await page.goto(served.url)
    await page.getByText('2 of 6 units').waitFor()
    await page.getByText('live', { exact: true }).waitFor()
    await page.waitForTimeout(1_500)
    await db.database.pool.query(`update etl.run_jobs set outcome = 'loaded' where run_id = 2 and job_id = 9`)
    await page.getByText('3 of 6 units').waitFor()
    expect(problems).toEqual([])
  })

  test('everything is there without scripts', async () => {
    await fillLedger(db, 'failing')
    served = await servePage(db)
    const page = await open({ javaScriptEnabled: false })
    await page.goto(served.url)
    await page.getByRole('link', { name: 'Coverage', exact: true }).click()
    await page.getByRole('link', { name: 'keywords', exact: true }).click()
    await page.getByRole('link', { name: '2026-08: held' }).click()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Unit #1')
    await page.getByRole('link', { name: 'Release…' }).click()
    await page.getByRole('button', { name: 'Release it' }).click()
    expect(await page.getByRole('status').first().textContent()).toContain('Released')
  })

  test('without scripts a search finds, a plan is made again and credits are read', async () => {
    await fillLedger(db, 'failing')
    served = await servePage(db)
    const page = await open({ javaScriptEnabled: false })
    await page.goto(served.url)
    await page.getByLabel('Find').fill('B.com')
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByText('b.com · us').waitFor()
    await page.getByRole('link', { name: 'Plan', exact: true }).click()
    await page.getByRole('button', { name: 'Plan again' }).click()
    await page.getByText('The next run loads 2 units').waitFor()
    expect(new URL(page.url()).pathname).toBe('/plan')
    await page.getByRole('link', { name: 'Quota', exact: true }).click()
    await page.getByText('reserved for unfinished reports').waitFor()
    expect(await page.locator('time').allTextContents()).toEqual([])
    expect(served.errors).toEqual([])
  })

  test('a plan that is still being worked out appears when it is ready', async () => {
    await fillLedger(db, 'loaded')
    const ready: ((plan: NightPlan) => void)[] = []
    served = await servePage(db, { plan: () => new Promise((resolve) => ready.push(resolve)) })
    const page = await open()
    await page.goto(`${served.url}/plan`)
    await page.getByText('The dry run is in progress').waitFor()
    for (const one of ready) one(nightPlan)
    await page.getByText('The next run loads 2 units').waitFor()
    expect(ready).toHaveLength(1)
    expect(problems).toEqual([])
  })

  test('runs of two seconds and of two hours are both seen on the timeline, and each leads on by keyboard', async () => {
    await fillLedger(db, 'loaded')
    await db.database.pool.query(`insert into etl.runs (command, arguments, state, process_id, started_at, finished_at, summary) values
      ('run', '{"pipelines": []}', 'done', 1, now() - interval '3 hours', now() - interval '1 hour', '{}'),
      ('run', '{"pipelines": ["keywords"], "only": null}', 'done', 1, now() - interval '10 minutes', now() - interval '10 minutes' + interval '2 seconds', '{}')`)
    served = await servePage(db)
    const page = await open({ viewport: { width: 1100, height: 750 }, timezoneId: 'Asia/Kathmandu' })
    await page.goto(`${served.url}/runs`)
    const timeline = page.locator('figure').first()
    const bars = await timeline
      .locator('svg[role] rect')
      .evaluateAll((all) => all.map((bar) => bar.getBoundingClientRect().width))
    expect(bars).toHaveLength(3)
    expect(Math.min(...bars)).toBeGreaterThan(2)
    expect(Math.max(...bars)).toBeGreaterThan(4 * Math.min(...bars))
    const ticks = await timeline.locator('svg[role] text').allTextContents()
    expect(ticks).toEqual(expect.arrayContaining([expect.stringMatching(/^\d\d:\d\d$/)]))
    expect(await timeline.locator('[data-zone]').textContent()).toMatch(/^GMT\+5:45$/)
    // So many hours have a tick at each half, which is another minute there.
    expect(ticks.every((tick) => /:(15|45)$/.test(tick))).toBe(true)
    expect(await timeline.locator('.lanes li').allTextContents()).toEqual(['backfill', 'run'])
    expect(await page.locator('main').textContent()).not.toMatch(/[{}[\]]/)
    await page.getByText('all pipelines').waitFor()
    await timeline.locator('a').first().focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: /^Run #/ }).waitFor()
    expect(problems).toEqual([])
  })

  test('every place and the search are reached by the tab key, in view and with a visible focus', async () => {
    await fillLedger(db, 'loaded')
    served = await servePage(db)
    const page = await open({ viewport: { width: 1100, height: 750 } })
    await page.goto(`${served.url}/quota`)
    const reached: string[] = []
    for (let steps = 0; steps < 14; steps += 1) {
      await page.keyboard.press('Tab')
      const [name, outline] = await page.evaluate<[string, string]>(`(() => {
        const one = document.activeElement
        return [one.textContent || one.id, getComputedStyle(one).outlineStyle]
      })()`)
      reached.push(name)
      expect(outline, name).toBe('solid')
    }
    expect(reached).toEqual(expect.arrayContaining(['Overview', 'Plan', 'Quota', 'Schedule', 'find', 'Search']))
  })

  test('the token is asked for once and opens every place', async () => {
    await fillLedger(db, 'loaded')
    served = await servePage(db, { token: true })
    const page = await open()
    await page.goto(`${served.url}/units`)
    await page.getByLabel('Token').fill('not the token, surely')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByText('That is not the token.').waitFor()
    await page.getByLabel('Token').fill(pageToken)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    expect(page.url()).not.toContain(pageToken)
    await page.getByRole('link', { name: 'Units', exact: true }).click()
    await page.getByRole('heading', { name: 'Units', level: 1 }).waitFor()
  })

  test('ten thousand units stand on one page and scroll', async () => {
    await fillLedger(db, 'loaded')
    await addUnits(db, '2026-01-01', 10_000)
    served = await servePage(db)
    const page = await open({ viewport: { width: 1100, height: 750 } })
    await page.goto(`${served.url}/units?limit=10000`)
    expect(await page.locator('tbody tr').count()).toBe(10_000)
    const worst = await page.evaluate<number>(`new Promise((resolve) => {
      let last = performance.now(), worst = 0, steps = 0
      const step = (now) => {
        if (steps > 1) worst = Math.max(worst, now - last)
        last = now
        window.scrollBy(0, 4000)
        steps += 1
        if (steps < 60) requestAnimationFrame(step)
        else resolve(worst)
      }
      requestAnimationFrame(step)
    })`)
    process.stderr.write(`longest frame while scrolling 10,000 units: ${Math.round(worst)} ms\n`)
    expect(problems).toEqual([])
  })
})
