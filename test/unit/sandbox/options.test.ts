import { describe, expect, test } from 'vitest'
import { jsonOptions, mergeOptions, sandboxOptionsFrom, parseOptions } from '../../../src/sandbox/sandbox-options.ts'
import { createRateBucket } from '../../../src/sandbox/service.ts'

describe('options', () => {
  test('keep what a patch does not name', () => {
    const settings = parseOptions(mergeOptions({ seed: 7, csv: { bom: true } }, { csv: { crlf: true } }))
    expect(settings).toMatchObject({ seed: 7, csv: { bom: true, crlf: true, nulls: 'mixed' }, maxLimit: 2000 })
  })

  test('a wrong one is refused by name, and so is an unknown one', () => {
    expect(() => parseOptions({ maxLimit: 0 })).toThrow(/maxLimit: .*See docs\/sandbox-reference\.md/)
    expect(() => parseOptions({ now: 'tomorrow' })).toThrow(/now: /)
    expect(() => parseOptions({ speed: 3 })).toThrow(/speed/)
  })

  test('the clock may be a function', () => {
    expect(parseOptions({ now: () => 5 }).now).toBeTypeOf('function')
  })

  test('the bare interface has no limits of ours, unless they are set', () => {
    expect(parseOptions({ extensions: false, maxLimit: 50 })).toMatchObject({ maxLimit: 50, requestsPerSecond: null })
  })
})

describe('command-line flags', () => {
  test('nothing given is the defaults on port 8080', () => {
    expect(sandboxOptionsFrom({ extensions: true, json: false })).toEqual({ port: 8080, extensions: true })
  })

  test('each becomes its option, and --options takes the others by name', () => {
    const given = { port: '0', key: 'k', keywords: '7', restate: '2026-01,2026-02', hostile: true, options: '{"gzip":"file"}' }
    const options = sandboxOptionsFrom(given)
    const others = { gzip: 'file', restate: ['2026-01', '2026-02'], hostile: true }
    expect(options).toEqual({ port: 0, apiKey: 'k', keywordsPerDomain: 7, ...others })
    expect(parseOptions(options)).toMatchObject(options)
  })

  test.each(['{bad', '[1]', '/nowhere/options.json'])('--options %s is refused by name', (text) => {
    expect(() => jsonOptions(text)).toThrow(/^--options: .*docs\/sandbox-reference\.md/)
  })

  test('a flag that is no number is refused by its name', () => {
    expect(() => parseOptions(sandboxOptionsFrom({ port: 'abc' }))).toThrow(/--port is 'abc'/)
  })
})

describe('the rate limit', () => {
  test('allows a burst of one second and then a steady trickle', () => {
    let now = 0
    const bucket = createRateBucket(() => now)
    const taken = (times: number): number => Array.from({ length: times }, () => bucket.take(10)).filter(({ ok }) => ok).length
    expect(taken(15)).toBe(10)
    expect(bucket.take(10)).toEqual({ ok: false, waitSeconds: 0.1 })
    now = 350
    expect(taken(10)).toBe(3)
    now = 60_000
    expect(taken(30)).toBe(10)
    expect(bucket.take(null)).toEqual({ ok: true })
  })
})
