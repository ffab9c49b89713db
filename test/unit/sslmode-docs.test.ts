// What docs/connect.md says of sslmode is what the driver does.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse } from 'pg-connection-string'
import { describe, expect, test } from 'vitest'
import { withLibpqMeaning } from '../../src/db/connect.ts'

const read = (name: string): string => readFileSync(resolve(import.meta.dirname, '../../docs', name), 'utf8')

/** Mode and what the table of connect.md says of it. */
const documented = new Map(
  [...read('connect.md').matchAll(/^\| ((?:not set|`[\w-]+`)(?:, `[\w-]+`)*) \| ((?:not )?encrypted.*) \|$/gm)].flatMap(
    ([, modes = '', words = '']) => modes.split(', ').map((mode): [string, string] => [mode.replaceAll('`', ''), words]),
  ),
)

const meaning = (mode: string): string => {
  const address = new URL('postgres://u:p@db.example/warehouse')
  if (mode !== 'not set') address.searchParams.set('sslmode', mode)
  withLibpqMeaning(address)
  const { ssl } = parse(address.href)
  if (ssl === undefined || ssl === false) return 'not encrypted'
  const verifies =
    typeof ssl === 'object' && ssl !== null && 'rejectUnauthorized' in ssl ? ssl.rejectUnauthorized !== false : true
  return verifies ? 'encrypted; verifies the authority' : 'encrypted; verifies nothing'
}

describe('sslmode', () => {
  for (const mode of ['not set', 'disable', 'prefer', 'require', 'no-verify', 'verify-ca', 'verify-full'])
    test(`${mode} does what connect.md says`, () => {
      expect(documented.get(mode)?.startsWith(meaning(mode)), documented.get(mode)).toBe(true)
    })
})
