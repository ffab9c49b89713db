// What a killed writer leaves in a folder: the parts that it had saved, whatever bytes came behind them.
import { randomBytes } from 'node:crypto'
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Payload } from '../../../src/core/types.ts'
import { openLandingFolder } from '../../../src/extract/landing-folder.ts'
import type { Landing } from '../../../src/extract/landing-reader.ts'
import type { LandingWriter } from '../../../src/extract/landing-writer.ts'
import { landingName } from '../../support/landing-names.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'millrace-folder-'))
})
afterEach(() => rmSync(root, { recursive: true }))

const completeness = { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }

const landPart = async (writer: LandingWriter, part: number, text: string): Promise<void> => {
  const body: Payload['body'] = (async function* () {
    yield Buffer.from(text)
  })()
  await Array.fromAsync(writer.part({ part, format: 'json', body }).body)
}

/** More than is read ahead. */
const [one, two, three] = [1, 2, 3].map(() => randomBytes(300_000).toString('base64')) as [string, string, string]

const textsOf = async (landing: Landing): Promise<string[]> => {
  const texts: string[] = []
  for await (const { body } of landing.parts()) {
    const chunks: Uint8Array[] = []
    for await (const chunk of body) {
      chunks.push(chunk)
      // What lies behind is met before this part is read to its end.
      await setTimeout(10)
    }
    texts.push(Buffer.concat(chunks).toString())
  }
  return texts
}

test('parts that were saved are read, also behind a write that broke off; the landing goes on and is whole at its end', async () => {
  const store = openLandingFolder(root)
  await store.ready()
  const writer = await store.create(landingName())
  await landPart(writer, 1, one)
  await landPart(writer, 2, two)
  await expect(store.open(writer.locator)).rejects.toMatchObject({ code: 'LANDING_MISSING' })
  expect(await writer.save({ completeness })).toBe(true)
  const saved = await store.open(writer.locator)
  expect(await textsOf(saved)).toEqual([one, two])
  await landPart(writer, 3, three)
  expect(await textsOf(await store.open(writer.locator))).toEqual([one, two])
  await writer.finish({ completeness })
  expect(await textsOf(await store.open(writer.locator))).toEqual([one, two, three])
  expect(await textsOf(saved)).toEqual([one, two])

  appendFileSync(join(root, writer.locator, 'data.gz'), gzipSync('a page that the kill cut in two').subarray(0, 20))
  expect(await textsOf(saved)).toEqual([one, two])
  expect(await textsOf(await store.open(writer.locator))).toEqual([one, two, three])
})

test('a note that another process removed while the notes are listed was written long ago and ends nothing', async () => {
  const { notes } = openLandingFolder(root)
  for (const name of ['one', 'two']) await notes.write(`receipts/${name}`, name)
  const ages: boolean[] = []
  for await (const note of notes.list('receipts')) {
    await notes.remove('receipts/two')
    ages.push((await note.writtenMs()) > 0)
  }
  expect(ages).toEqual([true, false])
})
