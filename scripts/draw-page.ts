// Draws the pictures of the status page in docs/pictures from a warehouse of its own, filled from the sandbox by real commands; runs and purchases are dated
// back to as many nights. Run: node scripts/draw-page.ts (needs Chromium; CHROMIUM names another than /usr/bin/chromium)
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Browser, chromium } from 'playwright-core'
import { addWindows } from '../src/core/window.ts'
import { openDatabase } from '../src/db/connect.ts'
import { startSandbox } from '../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository, runCommand, startCommand } from '../test/support/command.ts'
import { environmentOf } from './picture-world.ts'

const pictures = resolve(import.meta.dirname, '..', 'docs', 'pictures')
const domains = ['example.com', 'example.net', 'example.org', 'shop.example']
const pipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance']
const monthsANight = 4
const nights = 6
const newest = addWindows(`${new Date().toISOString().slice(0, 7)}-01`, 'month', -1)
const first = addWindows(newest, 'month', 1 - nights * monthsANight)

const pages = ['overview', 'coverage', 'plan', 'runs', 'units', 'unit', 'quota', 'reports', 'quarantine', 'schedule'] as const
const widths = { desktop: 1280, wide: 1440, phone: 390 } as const
/** What the docs show; the others are drawn with --all DIR, to be looked at. */
const shown = new Set(['overview-desktop-light', 'overview-wide-dark', 'overview-phone-light', 'coverage-wide-dark', 'plan-desktop-light', 'plan-phone-light', 'unit-desktop-light']) // biome-ignore format: one list
const { values } = parseArgs({ options: { all: { type: 'string' } } })

const folder = mkdtempSync(join(tmpdir(), 'millrace-page-'))
const sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 60, quota: 10_000_000 })
const home = join(folder, 'home')
const database = await openDatabase({ databaseUrl: null, home })
const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
const environment = environmentOf(sandbox, database, home)
try {
  writePipelines()
  await said('migrate')
  for (let night = 0; night < nights; night += 1) {
    const from = addWindows(first, 'month', night * monthsANight)
    const to = addWindows(from, 'month', monthsANight - 1)
    await said('backfill', ...pipelines, '--from', from.slice(0, 7), '--to', to.slice(0, 7), '--yes')
  }
  await said('run')
  await dateBack()
  // What is new waits for a person's word.
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), linesOf([...domains, 'new.example']))
  await said('run')
  await draw(browser)
} finally {
  await browser.close()
  await sandbox.close()
  await database.close()
  rmSync(folder, { recursive: true, force: true })
}

function linesOf(values: readonly string[]): string {
  return values.map((one) => `${one}\n`).join('')
}

function writePipelines(): void {
  const into = join(folder, 'pipelines')
  cpSync(pipelinesOfRepository, into, { recursive: true })
  writeFileSync(join(into, 'domains.txt'), linesOf(domains))
  for (const name of pipelines) {
    const file = join(into, `${name}.yaml`)
    const text = readFileSync(file, 'utf8')
      .replace(/from: \d{4}-\d{2}/, `from: ${first.slice(0, 7)}`)
      .replace(/country: \[.*\]/, 'country: [us, gb]')
    writeFileSync(file, text)
  }
}

/** A run that holds something back ends with 1. */
async function said(...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await runCommand(args, environment, folder)
  if (code !== 0 && code !== 1) throw new Error(`millrace ${args.join(' ')}: ${code}\n${stdout}${stderr}`)
  process.stderr.write(`millrace ${args.join(' ')}: ${code}\n`)
}

async function dateBack(): Promise<void> {
  await database.pool.query(`update etl.runs r set started_at = started_at - n.ago, finished_at = finished_at - n.ago
    from (select run_id, (max(run_id) over () - run_id) * interval '4 days' as ago from etl.runs) n where n.run_id = r.run_id`)
  await database.pool.query(`update etl.jobs j set asked_at = asked_at - (select (max(r.run_id) - j.run_id) * interval '4 days' from etl.runs r)
    where report_state is not null`)
}

/** A unit with two refreshes tells the longest story. */
async function pathsOf(): Promise<Readonly<Record<(typeof pages)[number], string>>> {
  const { rows } = await database.pool.query<{ id: string }>(
    `select unit_id::text as id from etl.unit_list where pipeline = 'traffic_and_engagement' order by state = 'loaded' desc, window_from desc limit 1`,
  )
  const unit = rows[0]?.id ?? '1'
  const own = Object.fromEntries(pages.map((name) => [name, `/${name}`])) as Record<(typeof pages)[number], string>
  return { ...own, overview: '/', coverage: '/coverage/keywords', unit: `/units/${unit}` }
}

async function draw(on: Browser): Promise<void> {
  const { child, result, printed } = startCommand(['schedule', '--json'], { ...environment, MILLRACE_WEB_PORT: '0' }, folder)
  try {
    let url: string | undefined
    for (let tries = 0; tries < 600 && url === undefined; tries += 1) {
      await new Promise((done) => setTimeout(done, 100))
      url = /"event":"status_page","url":"([^"]+)"/.exec(printed())?.[1]
    }
    if (url === undefined) throw new Error(`the status page did not come up: ${printed()}`)
    const paths = await pathsOf()
    for (const name of pages)
      for (const [size, width] of Object.entries(widths))
        for (const scheme of ['light', 'dark'] as const) {
          const picture = `${name}-${size}-${scheme}`
          if (values.all === undefined && !shown.has(picture)) continue
          const context = await on.newContext({
            viewport: { width, height: 900 },
            colorScheme: scheme,
            timezoneId: 'Europe/Berlin',
          })
          const page = await context.newPage()
          await page.goto(url.replace(/\/$/, '') + paths[name])
          if (name === 'plan') await page.getByText(/The next run (loads|has)/).waitFor({ timeout: 120_000 })
          await page.screenshot({
            path: join(values.all ?? pictures, `${picture}.png`),
            fullPage: size !== 'phone' || values.all !== undefined,
          })
          await context.close()
        }
  } finally {
    child.kill('SIGTERM')
    await result
  }
}
