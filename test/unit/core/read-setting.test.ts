// Readers of single settings: what they take, and that every complaint names the variable and never a secret.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import {
  checkSettings,
  readAddress,
  readByPrefix,
  readCredits,
  readHosts,
  readKey,
  readMonth,
  readOptionalKey,
  readRate,
  settingOf,
} from '../../../src/core/read-setting.ts'

const complaint = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    return error instanceof Error && 'code' in error ? `${String(error.code)} ${error.message}` : String(error)
  }
  return 'no complaint'
}

describe('a setting', () => {
  test('of an account has the account’s name as a suffix', () => {
    expect([settingOf('KEY', 'default'), settingOf('KEY', 'acme')]).toEqual(['KEY', 'KEY_ACME'])
  })

  test('that is a month is a number from 1 to 12', () => {
    expect([readMonth({ M: '1' }, 'M'), readMonth({ M: '12' }, 'M'), readMonth({}, 'M')]).toEqual([1, 12, null])
    for (const text of ['0', '13', 'October', '1.5'])
      expect(complaint(() => readMonth({ M: text }, 'M'))).toContain('expected a month')
  })

  test('that is an address is one of scheme, host and path', () => {
    expect(readAddress({ URL: 'https://api.example.com/v2' }, 'URL').href).toBe('https://api.example.com/v2')
    expect(complaint(() => readAddress({}, 'URL'))).toMatch(/^CONFIGURATION URL is not set; set it in \.env/)
    expect(complaint(() => readAddress({ URL: '' }, 'URL'))).toContain('is not set')
    for (const text of ['api.example.com', 'ftp://example.com'])
      expect(complaint(() => readAddress({ URL: text }, 'URL'))).toContain(`URL is '${text}', expected an address`)
    const withPassword = complaint(() => readAddress({ URL: 'https://me:hidden-password@example.com' }, 'URL'))
    expect(withPassword).toContain('URL holds a user, a query or a fragment')
    expect(withPassword).not.toContain('hidden-password')
  })

  test('that is a key is a secret, which no conversion prints', () => {
    const key = readKey({ KEY: ' key-0123456789\n' }, 'KEY')
    expect(key.reveal()).toBe('key-0123456789')
    for (const text of [String(key), JSON.stringify({ key }), inspect({ key }), `${key}`, JSON.stringify(key)])
      expect(text).not.toContain('0123456789')
    expect(readOptionalKey({}, 'KEY')).toBeNull()
    expect(complaint(() => readKey({}, 'KEY'))).toMatch(/^CONFIGURATION KEY is not set; put/)
  })

  test.each(['with space-0123', 'line\nbreak-0123', 'ünprintable-0123', '   '])(
    'that no key is, is refused and not repeated: %j',
    (text) => {
      const said = complaint(() => readKey({ KEY: text }, 'KEY'))
      expect(said).toMatch(/^CONFIGURATION KEY holds .*copy it again/)
      expect(said).not.toContain('0123')
    },
  )

  test('that is a number has limits and a standard', () => {
    expect([readRate({}, 'RATE', 7), readRate({ RATE: '0.5' }, 'RATE', 7)]).toEqual([7, 0.5])
    for (const text of ['0', '-1', 'many', '100001'])
      expect(complaint(() => readRate({ RATE: text }, 'RATE', 7))).toMatch(/RATE is '.*the service allows 7/)
    expect([readCredits({}, 'CREDITS'), readCredits({ CREDITS: '0' }, 'CREDITS')]).toEqual([null, 0])
    for (const text of ['-1', '1.5', 'some'])
      expect(complaint(() => readCredits({ CREDITS: text }, 'CREDITS'))).toContain(`CREDITS is '${text}'`)
  })

  test('may be a list of hosts, or several that begin alike', () => {
    expect([readHosts({}, 'HOSTS'), readHosts({ HOSTS: ' A.example.com, b.example.com,' }, 'HOSTS')]).toEqual([
      null,
      ['a.example.com', 'b.example.com'],
    ])
    expect(complaint(() => readHosts({ HOSTS: 'https://a.example.com' }, 'HOSTS'))).toContain('without https://')
    expect([...readByPrefix({ PATH_ONE: '/one', PATH_TWO: '', OTHER: '/x' }, 'PATH_')]).toEqual([['one', '/one']])
  })

  test('is named with all others that are wrong, in one go', () => {
    const said = complaint(() =>
      checkSettings(
        () => readAddress({}, 'URL'),
        () => readRate({ RATE: '3' }, 'RATE', 1),
        () => readKey({}, 'KEY'),
      ),
    )
    expect(said.split('\n').map((line) => line.replace('CONFIGURATION ', '').split(' ')[0])).toEqual(['URL', 'KEY'])
  })
})
