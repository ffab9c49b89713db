// Where a download link may point: the service's own host and public https, never our own network, whatever spelling it has.
import { describe, expect, test } from 'vitest'
import { forgetSecrets, secret } from '../../../src/core/redact.ts'
import { allowedDownload, guardedLookup } from '../../../src/extract/download-address.ts'
import { failureOf } from '../parse/parsing.ts'

const service = new URL('https://api.example.com')
const refused = (link: string, base = service, hosts: readonly string[] | null = null): Promise<string> =>
  failureOf(Promise.resolve().then(() => allowedDownload(link, base, base, hosts)))

const hostile = [
  'http://api2.example.com/file.csv',
  'http://203.0.113.9/file.csv',
  'https://127.0.0.1/file.csv',
  'https://127.1/file.csv',
  'https://2130706433/file.csv',
  'https://0x7f.0.0.1/file.csv',
  'https://0177.0.0.1/file.csv',
  'https://0/file.csv',
  'https://localhost/file.csv',
  'https://LOCALHOST./file.csv',
  'https://db.localhost/file.csv',
  'https://[::1]/file.csv',
  'https://[::]/file.csv',
  'https://[::ffff:127.0.0.1]/file.csv',
  'https://[::ffff:10.0.0.1]/file.csv',
  'https://[fe80::1]/file.csv',
  'https://[fd00::1]/file.csv',
  'https://[64:ff9b::a9fe:a9fe]/file.csv',
  'https://[2002:7f00:1::]/file.csv',
  'https://10.0.0.5/file.csv',
  'https://172.16.3.4/file.csv',
  'https://192.168.1.1/file.csv',
  'https://100.64.0.1/file.csv',
  'https://169.254.169.254/latest/meta-data',
  'https://198.18.0.1/file.csv',
  'https://224.0.0.1/file.csv',
  'https://255.255.255.255/file.csv',
  'https://user@files.example.com/file.csv',
  'https://user:password@files.example.com/file.csv',
  'file:///etc/passwd',
  'ftp://files.example.com/file.csv',
  'javascript:alert(1)',
  'data:text/csv,a,b',
  'gopher://127.0.0.1:5432/_',
  'https://',
  'not a link at all',
]

describe('download addresses', () => {
  test.each(hostile)('%s is refused', async (link) => {
    const said = await refused(link, service)
    if (said === 'no failure') expect(allowedDownload(link, service, service, null).host, link).toBe(service.host)
    else expect(said).toMatch(/^BAD_RESPONSE: The download link points at/)
  })

  test('more than thirty of them, and none is let through but a path on the service itself', async () => {
    const passed = []
    for (const link of hostile) if ((await refused(link)) === 'no failure') passed.push(link)
    expect(hostile.length).toBeGreaterThan(30)
    expect(passed).toEqual(['not a link at all'])
  })

  test('a public https address and the service’s own host are followed', async () => {
    for (const link of ['https://files.example.com/a.csv?signature=x', 'https://api.example.com/a.csv', '/a.csv'])
      expect(await refused(link)).toBe('no failure')
  })

  test('with a list of hosts only they and the service itself are followed', async () => {
    const hosts = ['files.example.com']
    expect(await refused('https://files.example.com/a.csv', service, hosts)).toBe('no failure')
    expect(await refused('https://api.example.com/a.csv', service, hosts)).toBe('no failure')
    expect(await refused('https://other.example.com/a.csv', service, hosts)).toContain('none of the hosts set')
    expect(await refused('http://files.example.com/a.csv', service, hosts)).toContain('without encryption')
  })

  test('an address that holds our key is refused, and not repeated', async () => {
    secret('key', 'k3y-in-the-link-0123')
    const said = await refused(`https://files.example.com/a.csv?api_key=${encodeURIComponent('k3y-in-the-link-0123')}`)
    expect(said).toContain('holds a secret')
    expect(said).not.toContain('k3y-in')
    forgetSecrets()
  })

  test('a public name that resolves inside our network is refused at the moment of connecting', async () => {
    const lookup = guardedLookup(service)
    const error = await new Promise<Error | null>((resolve) => lookup('localhost', { all: true }, (found) => resolve(found)))
    expect(error?.message).toContain('private address')
  })
})
