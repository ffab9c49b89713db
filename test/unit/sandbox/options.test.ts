import { describe, expect, test } from 'vitest'
import { sandboxFlags, sandboxOptionsFrom } from '../../../src/sandbox/sandbox-command-options.ts'
import { defaults, settle } from '../../../src/sandbox/sandbox-options.ts'
import { createRateBucket } from '../../../src/sandbox/service.ts'

describe('options', () => {
  test('keep what a patch does not name', () => {
    const settings = settle(settle(defaults, { seed: 7, csv: { bom: true } }), { csv: { crlf: true } })
    expect(settings).toMatchObject({ seed: 7, csv: { bom: true, crlf: true, nulls: 'mixed' }, maxLimit: 2000 })
  })

  test('a wrong one is refused by name, and so is an unknown one', () => {
    expect(() => settle(defaults, { maxLimit: 0 })).toThrow(/maxLimit: .*See docs\/sandbox-reference\.md/)
    expect(() => settle(defaults, { now: 'tomorrow' })).toThrow(/now: /)
    const unknown: object = { speed: 3 }
    expect(() => settle(defaults, unknown)).toThrow(/speed/)
  })

  test('the clock may be a function', () => {
    expect(settle(defaults, { now: () => 5 }).now).toBeTypeOf('function')
  })
})

describe('command-line flags', () => {
  test('nothing given is the defaults on port 8080', () => {
    expect(sandboxOptionsFrom({ extensions: true, json: false })).toEqual({ port: 8080 })
  })

  test('each becomes its option', () => {
    const given = {
      port: '0',
      key: 'k',
      rate: '0',
      keywordsFor: 'a.com=5000,b.com=0',
      restate: '2026-01,2026-02',
      extensions: false,
      csv: 'bom,months',
      faults: '[{"kind":"status-500","nth":3}]',
      hostile: true,
      retryAfter: 'date',
    }
    expect(sandboxOptionsFrom(given)).toEqual({
      port: 0,
      apiKey: 'k',
      requestsPerSecond: null,
      keywordsByDomain: { 'a.com': 5000, 'b.com': 0 },
      restate: ['2026-01', '2026-02'],
      extensions: false,
      csv: { bom: true, months: 'month' },
      faults: [{ kind: 'status-500', nth: 3 }],
      hostile: true,
      retryAfter: 'date',
    })
  })

  test.each([
    [{ port: 'abc' }, /--port is 'abc'; expected port on 127/],
    [{ gzip: 'zip' }, /--gzip is 'zip'; expected downloads: off, encoding/],
    [{ restate: 'January' }, /--restate is 'January'; expected months .*2026-01,2026-02/],
    [{ faults: '[{"kind":"explode"}]' }, /--faults .*expected faults as a JSON list/],
    [{ faults: '[' }, /--faults: not JSON/],
    [{ faults: '/nowhere/faults.json' }, /--faults: \/nowhere\/faults\.json cannot be read/],
    [{ csv: 'tabs' }, /--csv is 'tabs'; expected of bom, crlf/],
  ])('%j is refused by name', (given, message) => {
    expect(() => sandboxOptionsFrom(given)).toThrow(message)
  })

  test('no two flags have the same name', () => {
    const names = sandboxFlags.map(({ flags }) => flags.split(' ')[0])
    expect(new Set(names).size).toBe(names.length)
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
