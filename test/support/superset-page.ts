// The summary as a person sees it: a real Superset's page in a real Chromium, as high as a screen.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Page } from 'playwright-core'

/** Words of headings and cells that a person sees only in part. */
const cutWords = `[...document.querySelectorAll('.dashboard-component-chart-holder')].flatMap((holder) => {
  const found = []
  const words = document.createTreeWalker(holder, NodeFilter.SHOW_TEXT)
  while (words.nextNode()) {
    const text = words.currentNode
    const range = document.createRange()
    range.selectNodeContents(text)
    const { right, bottom, width, height } = range.getBoundingClientRect()
    if (text.textContent.trim() === '' || width < 2 || height < 2) continue
    for (let box = text.parentElement; box !== holder.parentElement; box = box.parentElement) {
      const edge = box.getBoundingClientRect()
      if (getComputedStyle(box).overflow === 'visible' || edge.width < 2) continue
      if (right > edge.right + 2 || bottom > edge.bottom + 2) {
        found.push(text.textContent)
        break
      }
    }
  }
  return found
})`

/** A chart is drawn once it comes into view, so the screen is as high as the page. */
const drawWhole = async (page: Page, address: string, path: string): Promise<void> => {
  await page.setViewportSize({ width: 1440, height: 5_200 })
  await page.goto(address)
  await page.waitForFunction(
    // What the page is about stands in a holder, too.
    `document.querySelectorAll('.slice_container').length + document.querySelectorAll('.dashboard-markdown').length
      >= document.querySelectorAll('.dashboard-component-chart-holder').length
      && document.querySelector('.slice_container') !== null && document.querySelector('.loading') === null`,
    undefined,
    { timeout: 120_000 },
  )
  const height = await page.evaluate<number>(
    `Math.ceil(Math.max(...[...document.querySelectorAll('.dashboard-component-chart-holder')].map((one) => one.getBoundingClientRect().bottom))) + 16`,
  )
  const clip = { x: 0, y: 0, width: 1440, height }
  // Lines grow for a while.
  for (let [before, now] = ['', 'none yet']; before !== now; )
    [before, now] = [now, (await page.screenshot({ clip })).toString('base64')]
  await page.screenshot({ path, clip })
}

/** What the page says when all its charts are drawn, and the median of the times that took. @param pictures folder for a picture of it and of the other pages; undefined: none */
export const lookAtSummary = async (url: string, login: { user: string; password: string }, pictures: string | undefined) => {
  // With a folder of its own, as a person's browser has: scripts that were compiled once stay compiled.
  const profile = mkdtempSync(join(tmpdir(), 'millrace-browser-'))
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
    viewport: { width: 1440, height: 900 },
    bypassCSP: true,
  })
  try {
    const page = await browser.newPage()
    await page.goto(`${url}/login/`)
    await page.fill('#username', login.user)
    await page.fill('#password', login.password)
    await page.click('button[type=submit]')
    await page.waitForURL((at) => !at.pathname.includes('login'))
    const address = `${url}/superset/dashboard/millrace-summary/`
    const drawn = async (): Promise<number> => {
      const started = performance.now()
      await page.goto(address)
      await page.waitForFunction(
        `document.querySelectorAll('.slice_container').length === 9 && document.querySelector('.loading') === null`,
        undefined,
        { timeout: 120_000 },
      )
      return performance.now() - started
    }
    // Before, so that the program's own files are there and compiled, as on a person's second day.
    for (let visit = 0; visit < 3; visit += 1) await drawn()
    const times: number[] = []
    for (let visit = 0; visit < 5; visit += 1) times.push(await drawn())
    const ms = times.toSorted((one, other) => one - other)[2] ?? Number.NaN
    const texts = await page.locator('.slice_container').allInnerTexts()
    const bottom = await page.evaluate<number>(
      `Math.max(...[...document.querySelectorAll('.slice_container')].map((one) => one.getBoundingClientRect().bottom))`,
    )
    const warnings = await page.locator('.ant-alert, [aria-label="warning"], [data-test="row-count-label"]').count()
    const cut = await page.evaluate<string[]>(cutWords)
    if (pictures !== undefined) {
      mkdirSync(pictures, { recursive: true })
      await page.screenshot({ path: join(pictures, 'superset-summary.png') })
      for (const name of ['keywords', 'shopper-category-performance', 'traffic-and-engagement'])
        await drawWhole(page, `${url}/superset/dashboard/millrace-${name}/`, join(pictures, `superset-${name}.png`))
    }
    return { ms, texts, bottom, warnings, cut }
  } finally {
    await browser.close()
    rmSync(profile, { recursive: true, force: true })
  }
}
