// The summary as a person sees it: a real Superset's page in a real Chromium, as high as a screen.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

/** What the page says when all its charts are drawn. @param pictures folder for a picture of it; undefined: none */
export const lookAtSummary = async (url: string, login: { user: string; password: string }, pictures: string | undefined) => {
  const browser = await chromium.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  })
  try {
    const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, bypassCSP: true })).newPage()
    await page.goto(`${url}/login/`)
    await page.fill('#username', login.user)
    await page.fill('#password', login.password)
    await page.click('button[type=submit]')
    await page.waitForURL((at) => !at.pathname.includes('login'))
    const address = `${url}/superset/dashboard/millrace-summary/`
    // Once before, so that the program's own files are there, as on a person's second day.
    await page.goto(address)
    const drawn = async (): Promise<void> => {
      await page.waitForFunction(
        `document.querySelectorAll('.slice_container').length === 12 && document.querySelector('.loading') === null`,
        undefined,
        { timeout: 120_000 },
      )
    }
    await drawn()
    const started = performance.now()
    await page.goto(address)
    await drawn()
    const ms = performance.now() - started
    const texts = await page.locator('.slice_container').allInnerTexts()
    const bottom = await page.evaluate<number>(
      `Math.max(...[...document.querySelectorAll('.slice_container')].map((one) => one.getBoundingClientRect().bottom))`,
    )
    const warnings = await page.locator('.ant-alert, [aria-label="warning"], [data-test="row-count-label"]').count()
    if (pictures !== undefined) {
      mkdirSync(pictures, { recursive: true })
      await page.screenshot({ path: join(pictures, 'superset-summary.png') })
    }
    return { ms, texts, bottom, warnings }
  } finally {
    await browser.close()
  }
}
