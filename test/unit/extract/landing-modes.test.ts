// What lies in the landing is for the account that loads it alone: paid data, and what was asked for.
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { landingSetting } from '../../../src/core/landing-setting.ts'
import { openLandingStore } from '../../../src/extract/landing.ts'
import { landingName } from '../../support/landing-names.ts'

async function* bytes(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('a,b\n1,2\n')
}

test('every folder of a landing is 0700 and every file 0600', async () => {
  const home = mkdtempSync(join(tmpdir(), 'millrace-modes-'))
  const store = await openLandingStore(landingSetting({}, home, home))
  await store.ready()
  const writer = await store.create(landingName())
  for await (const _ of writer.part({ part: 1, format: 'csv', body: bytes() }).body) {
    // Reading is what lands.
  }
  await writer.finish({
    completeness: { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null },
  })
  const landing = join(home, 'landing')
  const found = ['.', ...readdirSync(landing, { recursive: true, encoding: 'utf8' })].map((name) => {
    const { mode } = statSync(join(landing, name))
    return { name, isFolder: statSync(join(landing, name)).isDirectory(), mode: (mode & 0o777).toString(8) }
  })
  expect(found.length).toBeGreaterThan(4)
  for (const { name, isFolder, mode } of found) expect(mode, name).toBe(isFolder ? '700' : '600')
  rmSync(home, { recursive: true })
})
