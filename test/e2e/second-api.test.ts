// A warehouse of an API of one's own alone, with the real commands: its folder is asked, and no setting of the API that ships is needed.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { runCommand, summaryOf } from '../support/command.ts'
import { startShopService } from '../support/second-api/server.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const token = 'token-of-the-shop-0123456789'
const fixture = resolve(import.meta.dirname, '..', 'support', 'second-api')

const world = testWorld({
  each: true,
  copied: [],
  service: () => startShopService([token], 50),
  settings: { SHOP_API_TOKEN_COMMAND: `printf '%s\\n' '${token}'` },
})
const { folder, db, service: shop } = world

beforeEach(() => {
  for (const name of ['pipelines', 'migrations', 'sources']) cpSync(join(fixture, name), join(folder, name), { recursive: true })
  edit('sources/shop-api/index.ts', (code) => code.replace(/'(\.\.\/)+src\/index\.ts'/, "'millrace'"))
})

const edit = (name: string, change: (text: string) => string): void =>
  writeFileSync(join(folder, name), change(readFileSync(join(folder, name), 'utf8')))

const millrace = (args: readonly string[], others: Readonly<Record<string, string>> = {}) => {
  const { DATABASE_URL = '', MILLRACE_HOME = '', SHOP_API_TOKEN_COMMAND = '' } = world.environment()
  return runCommand(args, { DATABASE_URL, MILLRACE_HOME, SHOP_API_TOKEN_COMMAND, SHOP_API_URL: shop.url, ...others }, folder)
}

const rows = (query: string): Promise<readonly unknown[]> => db.query(query)

test('is migrated, checked, loaded and asked about', async () => {
  await succeeded(millrace(['migrate']))
  const checked = await succeeded(millrace(['check', '--json']))
  expect(shop.requests.map(({ path }) => path)).toEqual(['/v1/shops'])
  // Checks keep to the one rate that all machines of the warehouse share.
  expect(await rows('select account from etl.pace')).toEqual([{ account: 'shop-api/default' }])
  const loaded = await succeeded(millrace(['backfill', 'prices', '--from', '2026-09', '--to', '2026-09', '--json']))
  expect(summaryOf(loaded)).toMatchObject({ units: { loaded: 2 }, rows: { inserted: 100 }, requests: 4 })
  for (const question of ['describe', 'capabilities', 'quota']) {
    await succeeded(millrace([question, '--json']))
  }
  expect(JSON.stringify([checked, loaded])).not.toContain(token)
})

test('hears of everything that is wrong from its own folder', async () => {
  await succeeded(millrace(['migrate']))
  edit('pipelines/prices.yaml', (text) => text.replace('[north, south]', '[north, east]'))
  const wrongShop = await millrace(['check'])
  expect([wrongShop.code, wrongShop.stdout]).toEqual([
    2,
    expect.stringContaining("prices: there is no shop 'east'; correct for_each."),
  ])
  const nothingSet = await millrace(['check', '--json'], { SHOP_API_URL: '', SHOP_API_TOKEN_COMMAND: '' })
  const findings = nothingSet.events.filter(({ event }) => event === 'finding').map(({ message }) => String(message))
  expect(findings).toEqual([
    expect.stringContaining('SHOP_API_URL is not set'),
    expect.stringContaining('SHOP_API_TOKEN is not set'),
  ])
})

test('is loaded anew by force where code outside its folder, or a file beside it, has changed, although the bytes are the same', async () => {
  const spell = (sign: string) => writeFileSync(join(folder, 'spell.ts'), `export const sign = '${sign}'\n`)
  const call = (word: string) => writeFileSync(join(folder, 'sources/shop-api/words.json'), JSON.stringify(word))
  spell('!')
  call('one')
  edit('sources/shop-api/index.ts', (code) =>
    `import { sign } from '../../spell.ts'\nimport word from './words.json' with { type: 'json' }\n${code}`
      .replace(
        "name: 'shop-api.prices',",
        '$& spellings: { loud: { write: (text) => text + sign + word, problem: () => null } },',
      )
      .replace("product: { type: 'text',", "$& normalize: 'loud',"),
  )
  await succeeded(millrace(['migrate']))
  const said = async (): Promise<unknown> => {
    await succeeded(millrace(['backfill', 'prices', '--from', '2026-09', '--to', '2026-09', '--force', '--json']))
    const found = await db.database.pool.query(
      "select distinct regexp_replace(product, '^[a-z]+ [0-9]+', '') as said from data.prices_v1",
    )
    return found.rows.map((row) => row.said)
  }
  expect(await said()).toEqual(['!one'])
  spell('?')
  expect(await said()).toEqual(['?one'])
  call('two')
  expect(await said()).toEqual(['?two'])
})

test('is refused where its folder exports no `api`, or a source under another name', async () => {
  edit('sources/shop-api/index.ts', (code) => code.replace('export const api:', 'const hidden:'))
  const without = await millrace(['check', '--offline'])
  expect([without.code, without.stdout]).toEqual([
    2,
    expect.stringMatching(/index\.ts does not export `api`.*adding-a-source\.md/),
  ])
  edit('sources/shop-api/index.ts', (code) =>
    code.replace('const hidden:', 'export const api:').replace("'shop-api.prices'", "'shop.prices'"),
  )
  const misnamed = await millrace(['check', '--offline'])
  expect(misnamed.stdout).toContain("the source 'shop.prices' must be named 'shop-api.<dataset>'")
})
