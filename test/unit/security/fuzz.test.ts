// Ten thousand hostile names, paths and header values: none becomes SQL, leaves its folder, or splits a header.
import { resolve, sep } from 'node:path'
import fc from 'fast-check'
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { readKey } from '../../../src/core/read-setting.ts'
import { isEtlError } from '../../../src/core/errors.ts'
import { landingLocator } from '../../../src/extract/landing-files.ts'
import { landingName } from '../../support/landing-names.ts'
import { change, check, contractExample } from '../definition/checking.ts'

const hostile = fc.oneof(
  fc.constantFrom(
    'x"; drop table etl.units; --',
    "x'; select 1; --",
    'a"b',
    'a\u0000b',
    '../../etc/passwd',
    '..\\..\\windows',
    '/etc/passwd',
    'a/../../b',
    '....//',
    'x\r\nSet-Cookie: a=b',
    'x\nHost: evil.example',
    'ａｄｍｉｎ',
    'pg_catalog',
    'select',
    'a'.repeat(64),
    'é'.repeat(40),
    '$(touch /tmp/x)',
    '`id`',
    `$${'{7*7}'}`,
    '{{7*7}}',
    '%2e%2e%2f',
    'CON',
    '-rf',
    '.',
    '..',
    '',
    ' ',
  ),
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc.string({ unit: 'grapheme', maxLength: 80 }),
  fc.stringMatching(/^[a-z"'./\\;\-_$]{1,70}$/),
)

const compiler = new Kysely<Record<string, never>>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

describe('ten thousand hostile words', { timeout: 120_000 }, () => {
  test('as a pipeline’s or a column’s name: what is accepted is a plain identifier of at most 63 bytes', () => {
    fc.assert(
      fc.property(hostile, fc.boolean(), (word, asPipeline) => {
        const name = JSON.stringify(word)
        const text = asPipeline
          ? change(contractExample, 'pipeline: keywords', `pipeline: ${name}`)
          : change(contractExample, '    clicks: {', `    ${name}: {`)
        const { definitions } = check(text)
        for (const definition of definitions)
          for (const accepted of [definition.pipeline, ...definition.columns.map((column) => column.name)]) {
            expect(accepted).toMatch(/^[a-z][a-z0-9_]*$/)
            expect(Buffer.byteLength(accepted)).toBeLessThanOrEqual(63)
          }
      }),
      { numRuns: 2_000 },
    )
  })

  test('as an SQL identifier: it stays one quoted name, whatever it holds', () => {
    fc.assert(
      fc.property(hostile, (word) => {
        const { sql: text } = sql`select ${sql.id(word)}`.compile(compiler)
        expect(text).toBe(`select "${word.replaceAll('"', '""')}"`)
      }),
      { numRuns: 3_000 },
    )
  })

  test('as a slice: the landing lies below its folder, in four plain folders of bearable length', () => {
    fc.assert(
      fc.property(hostile, hostile, (one, other) => {
        const box = {
          key: `k/${one}/${other}`,
          pipeline: 'p',
          version: 1,
          window: { from: '2026-01-01', to: '2026-02-01' },
          slice: { domain: one, other: [other] },
        }
        const locator = landingLocator(landingName({ box }))
        const root = '/home/landing'
        expect(resolve(root, locator).startsWith(root + sep)).toBe(true)
        const folders = locator.split('/')
        expect(folders).toHaveLength(4)
        for (const folder of folders) {
          expect(folder).toMatch(/^[a-z0-9._-]{1,200}$/)
          expect(folder).not.toMatch(/^\.+$/)
        }
      }),
      { numRuns: 3_000 },
    )
  })

  test('as a key: whatever could split or hide in a header is refused before any request, and not repeated', () => {
    fc.assert(
      fc.property(hostile, (word) => {
        const key = `0123456789${word}`
        try {
          const text = readKey({ SOME_KEY: key }, 'SOME_KEY').reveal()
          expect(text).toMatch(/^[\x21-\x7e]+$/)
          expect(() => new Headers({ 'api-key': text })).not.toThrow()
        } catch (error) {
          if (!isEtlError(error)) throw error
          expect(error.code).toBe('CONFIGURATION')
          expect(error.message).not.toContain(key)
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
