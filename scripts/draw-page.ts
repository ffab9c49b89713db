// Draws the pictures of the status page in docs/pictures from a warehouse of its own, filled from the sandbox by real commands; runs and purchases are dated
// back to as many nights. Run: node scripts/draw-page.ts (needs Chromium; CHROMIUM names another than /usr/bin/chromium)
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
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

const views = [
  { name: 'overview', path: '/', width: 1900, scheme: 'light' },
  { name: 'overview-phone', path: '/', width: 390, scheme: 'light' },
  { name: 'plan-page', path: '/plan', width: 1100, scheme: 'light' },
  { name: 'plan-phone', path: '/plan', width: 390, scheme: 'light' },
  { name: 'coverage-dark', path: '/coverage/keywords', width: 1100, scheme: 'dark' },
] as const

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

async function draw(on: Browser): Promise<void> {
  const { child, result, printed } = startCommand(['schedule', '--json'], { ...environment, MILLRACE_WEB_PORT: '0' }, folder)
  try {
    let url: string | undefined
    for (let tries = 0; tries < 600 && url === undefined; tries += 1) {
      await new Promise((done) => setTimeout(done, 100))
      url = /"event":"status_page","url":"([^"]+)"/.exec(printed())?.[1]
    }
    if (url === undefined) throw new Error(`the status page did not come up: ${printed()}`)
    for (const { name, path, width, scheme } of views) {
      const context = await on.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, timezoneId: 'Europe/Berlin' })
      const page = await context.newPage()
      await page.goto(url.replace(/\/$/, '') + path)
      if (path === '/plan') await page.getByText(/The next run (loads|has)/).waitFor({ timeout: 120_000 })
      await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: width > 400 })
      await context.close()
    }
  } finally {
    child.kill('SIGTERM')
    await result
  }
}
