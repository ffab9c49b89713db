// The digest of what makes rows out of bytes: it changes with the code and with each setting that decides about rows, and with nothing else.
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { rowMakerOf } from '../../../src/core/makes-rows.ts'
import { digestOf } from '../../../src/core/program-code.ts'
import type { Definition } from '../../../src/core/types.ts'
import { shippedDefinition } from '../../support/definitions.ts'

const given = await shippedDefinition('traffic_and_engagement')

describe('a definition', () => {
  const [first, ...others] = given.columns
  if (first === undefined) throw new Error('no columns')
  const maker = (change: Partial<Definition>, code = 'code') => rowMakerOf({ ...given, ...change }, code)

  test.each<[string, Partial<Definition>]>([
    ['a column', { columns: others }],
    ['the order of its columns', { columns: [...others, first] }],
    ['the field of a column', { columns: [{ ...first, from: ['other'] }, ...others] }],
    ['a cast', { columns: [{ ...first, type: 'numeric' }, ...others] }],
    ['its parameters', { params: { ...given.params, more: 'x' } }],
    ['its source', { source: 'other.report' }],
    ['its limits', { limits: { ...given.limits, rejectShare: 0.2 } }],
    ['what a window is', { window: { ...given.window, every: 'week' } }],
    ['the span of a row', { period: { ...given.period, every: 'day' } }],
  ])('with another value of %s makes other rows', (_, change) => {
    expect(maker(change)).not.toBe(maker({}))
  })

  test('makes the same rows whatever its file, list, schedule or guard, and in whatever order it was put together', () => {
    const idle = { file: 'x', description: 'x', schedule: null, guard: null, tags: { a: 'b' }, expect: null, publish: false }
    const dimensions = given.dimensions.map((dimension) => ({ ...dimension, values: ['other'] }))
    expect(maker({ ...idle, dimensions, window: { ...given.window, lookBack: 9 } })).toBe(maker({}))
    const turned = Object.fromEntries(Object.entries(given).reverse()) as unknown as Definition
    expect(rowMakerOf(turned, 'code')).toBe(maker({}))
  })

  test('makes other rows with other code, and nobody knows which where the code is not known', () => {
    expect(maker({}, 'other')).not.toBe(maker({}))
    expect(rowMakerOf(given, null)).toBeNull()
  })
})

describe('the code that runs', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-code-'))
    mkdirSync(join(folder, 'inner'))
    write('inner/a.ts', 'one')
    write('b.mjs', 'two')
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  const write = (name: string, text: string) => writeFileSync(join(folder, name), text)
  const later = () => Date.now() + 60_000

  test('is another with any other byte, file or name of code, and the same with other files', () => {
    const digests = [digestOf([folder], later())]
    write('README.md', 'three')
    expect(digestOf([folder], later())).toBe(digests[0])
    for (const [name, text] of [
      ['inner/a.ts', 'on3'],
      ['c.js', 'two'],
      ['inner/d.ts', 'two'],
    ] as const) {
      write(name, text)
      digests.push(digestOf([folder], later()))
    }
    expect(new Set(digests).size).toBe(4)
    expect(digests).not.toContain(null)
  })

  test('is not known where a file was written since the start, whatever moment it bears, or is gone', () => {
    utimesSync(join(folder, 'b.mjs'), 1, 1)
    expect(digestOf([folder], Date.now() - 60_000)).toBeNull()
    expect(digestOf([join(folder, 'none')], later())).toBeNull()
  })
})
