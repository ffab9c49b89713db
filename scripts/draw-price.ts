// Draws docs/pictures/plan.png, quota.png and quota-page.png, and writes the printed lines into the pages that show them: what real commands say of a
// warehouse of its own, filled from the sandbox. Run: node scripts/draw-price.ts (needs Chromium; CHROMIUM names another than /usr/bin/chromium)
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { openDatabase } from '../src/db/connect.ts'
import { startSandbox } from '../src/sandbox/server.ts'
import { pipelinesOfRepository, runCommand, startCommand } from '../test/support/command.ts'

const docs = resolve(import.meta.dirname, '..', 'docs')
const firstMonth = '2026-01'
const lists = {
  before: ['example.com', 'example.org', 'shop.example'],
  after: ['example.com', 'example.org', 'shop.example', 'example.net'],
}
const tags = { keywords: 'acme', traffic_and_engagement: 'acme', shopper_category_performance: 'beta' }

const folder = mkdtempSync(join(tmpdir(), 'millrace-price-'))
const sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 2_500, quota: 100_000 })
const home = join(folder, 'home')
const database = await openDatabase({ databaseUrl: null, home })
const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
const environment = {
  WEB_ANALYTICS_BASE_URL: sandbox.url,
  WEB_ANALYTICS_API_KEY: sandbox.apiKey,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000',
  DATABASE_URL: database.url.reveal(),
  MILLRACE_HOME: home,
}
try {
  writePipelines()
  await said('migrate')
  // Two nights: the look-back is bought, the months before it wait; then a domain comes to the list.
  await said('run')
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), linesOf(lists.after))
  const plan = await said('plan')
  const quota = await said('quota')
  writeLines('every-night.md', 'millrace plan', plan)
  writeLines('credits.md', 'millrace quota', quota)
  await draw(browser, 'plan', 'millrace plan', plan)
  await draw(browser, 'quota', 'millrace quota', quota)
  await drawPage(browser)
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
  const pipelines = join(folder, 'pipelines')
  cpSync(pipelinesOfRepository, pipelines, { recursive: true })
  writeFileSync(join(pipelines, 'domains.txt'), linesOf(lists.before))
  for (const [name, client] of Object.entries(tags)) {
    const file = join(pipelines, `${name}.yaml`)
    const text = readFileSync(file, 'utf8')
      .replace(/from: \d{4}-\d{2}/, `from: ${firstMonth}`)
      .replace(/country: \[.*\]/, 'country: [us, gb]')
      .replace(/(limits: \{.*) \}/, name === 'keywords' ? '$1 }' : '$1, quota_per_month: 4000 }')
    writeFileSync(file, `${text}\ntags: { client: ${client} }\n`)
  }
}

/** What the command prints. A run that holds something back ends with 1. */
async function said(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runCommand(args, environment, folder)
  if (code !== 0 && !(code === 1 && args[0] === 'run')) throw new Error(`millrace ${args.join(' ')}: ${code}\n${stdout}${stderr}`)
  return stdout.trimEnd()
}

/** Into the first code block that begins with the command. */
function writeLines(page: string, command: string, lines: string): void {
  const file = join(docs, page)
  const text = readFileSync(file, 'utf8')
  const block = new RegExp(`(\`\`\`\\n\\$ ${command}\\n)[\\s\\S]*?(\\n\`\`\`)`)
  if (!block.test(text)) throw new Error(`${page} has no code block that begins with $ ${command}`)
  writeFileSync(
    file,
    text.replace(block, (_, before: string, after: string) => `${before}${lines}${after}`),
  )
}

async function draw(on: Browser, name: string, command: string, lines: string): Promise<void> {
  const page = await on.newPage({ viewport: { width: 1_000, height: 600 }, deviceScaleFactor: 1.5 })
  const escaped = lines.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  await page.setContent(`<body style="margin:0;background:#0f1720"><pre style="display:inline-block;margin:0;padding:20px 24px;color:#e6edf3;
    font:14px/1.4 'DejaVu Sans Mono',monospace"><span style="color:#7ee787">$ ${command}</span>\n${escaped}</pre></body>`)
  await page.locator('pre').screenshot({ path: pictureOf(name) })
  await page.close()
}

async function drawPage(on: Browser): Promise<void> {
  const { child, result, printed } = startCommand(['status', '--serve', '--port', '0', '--json'], environment, folder)
  try {
    let url: string | undefined
    for (let tries = 0; tries < 300 && url === undefined; tries += 1) {
      await new Promise((done) => setTimeout(done, 100))
      url = /"url":"([^"]+)"/.exec(printed())?.[1]
    }
    if (url === undefined) throw new Error(`the status page did not come up: ${printed()}`)
    const page = await on.newPage({ viewport: { width: 1_100, height: 900 } })
    await page.goto(`${url.replace(/\/$/, '')}/quota`)
    await page.screenshot({ path: pictureOf('quota-page') })
    await page.close()
  } finally {
    child.kill('SIGTERM')
    await result
  }
}

function pictureOf(name: string): string {
  mkdirSync(join(docs, 'pictures'), { recursive: true })
  return join(docs, 'pictures', `${name}.png`)
}
