// Small doors: addresses, keys of maps, list files.
import { describe, expect, test } from 'vitest'
import { readAddress } from '../../../src/core/read-setting.ts'
import { readYaml } from '../../../src/definition/yaml-file.ts'
import { allowedDownload } from '../../../src/extract/download-address.ts'
import { check, contractExample } from '../definition/checking.ts'

describe('the address of a service', () => {
  const read = (address: string, hosts = ''): URL =>
    readAddress({ SERVICE: address, ...(hosts === '' ? {} : { MILLRACE_PLAIN_HTTP_HOSTS: hosts }) }, 'SERVICE')

  test('may be plain http on this machine, and elsewhere only by name', () => {
    for (const here of ['http://127.0.0.1:8080', 'http://localhost', 'http://[::1]:9', 'https://api.example.com'])
      expect(read(here).href).toContain('http')
    expect(() => read('http://api.example.com/v1')).toThrow(
      /SERVICE is plain http to api\.example\.com: .*MILLRACE_PLAIN_HTTP_HOSTS=api\.example\.com/,
    )
    expect(() => read('http://localhost.example.com')).toThrow(/plain http/)
    expect(read('http://api.example.com', 'other.internal, api.example.com').hostname).toBe('api.example.com')
    expect(() => read('http://api.example.com', 'example.com')).toThrow(/plain http/)
  })
})

describe('IPv6 addresses that hold an IPv4 one', () => {
  const base = new URL('https://api.example.com')
  for (const inside of ['127.0.0.1', '10.0.0.8', '169.254.169.254', '192.168.1.1'])
    for (const form of [`::ffff:${inside}`, `::${inside}`, `0:0:0:0:0:ffff:${inside}`, `0:0::${inside}`])
      test(`[${form}] is judged as ${inside}`, () => {
        expect(() => allowedDownload(`https://[${form}]/report`, base, base, null)).toThrow(/private address/)
      })

  test('a public one stays public', () => {
    expect(allowedDownload('https://[::ffff:93.184.216.34]/report', base, base, null).pathname).toBe('/report')
  })
})

describe('__proto__', () => {
  test('is an unknown key of YAML wherever it stands, also where names are free', () => {
    for (const text of ['__proto__: { polluted: true }', 'table:\n  columns:\n    __proto__: { type: text }'])
      expect(readYaml('p.yaml', `pipeline: x\n${text}\n`).problems.map(({ message }) => message)).toEqual([
        "unknown key '__proto__'; correct or remove it.",
      ])
  })
})

describe('a list file', () => {
  test('that is none is not printed: no more of a line than how it begins', () => {
    const { problems } = check(contractExample, {
      lists: { 'domains.txt': 'AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n' },
    })
    const printed = JSON.stringify(problems).toLowerCase()
    expect(printed).toContain('aws_secret_access_key=wj')
    expect(printed).not.toContain('wjalrxutn')
  })
})
