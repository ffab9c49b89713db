// Writes what `millrace plan` and `millrace quota` print into the pages that show it, and draws docs/pictures/quota-page.png, from a warehouse of its own,
// filled from the sandbox. Run: node scripts/draw-price.ts (needs Chromium; CHROMIUM names another than /usr/bin/chromium)
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { startCommand } from '../test/support/command.ts'
import { openPictureWorld } from './picture-world.ts'

const docs = resolve(import.meta.dirname, '..', 'docs')

const browser = await chromium.launch({ executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium', args: ['--no-sandbox'] })
const world = await openPictureWorld()
const { environment, folder, said } = world
try {
  // The look-back is bought, the months before it wait.
  await said('run')
  world.addDomain()
  const plan = await said('plan')
  const quota = await said('quota')
  writeLines('every-night.md', 'millrace plan', plan)
  writeLines('credits.md', 'millrace quota', quota)
  await drawPage(browser)
} finally {
  await browser.close()
  await world.close()
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
