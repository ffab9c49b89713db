// TLS to the database, against an authority made here: the right certificate passes, every wrong one and none at all is refused.
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { generate } from 'selfsigned'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isEtlError } from '../../src/core/errors.ts'
import { secret } from '../../src/core/redact.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { type EmbeddedServer, startEmbedded } from '../../src/db/embedded.ts'
import { serverFiles } from '../../src/db/embedded-data.ts'
import { serverUser } from '../../src/db/embedded-program.ts'

interface Pair {
  readonly key: string
  readonly cert: string
}

const dayMs = 86_400_000
let home: string
let server: EmbeddedServer
let authority: Pair
let stranger: Pair

const certificate = async (
  names: readonly string[],
  signer: Pair | null,
  notAfterDate = new Date(Date.now() + 30 * dayMs),
): Promise<Pair> => {
  const made = await generate([{ name: 'commonName', value: names[0] ?? 'authority' }], {
    keyType: 'ec',
    notBeforeDate: new Date(Date.now() - 60 * dayMs),
    notAfterDate,
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: names.length === 0, critical: true },
      ...(names.length === 0
        ? [{ name: 'keyUsage' as const, keyCertSign: true, cRLSign: true, critical: true }]
        : [
            {
              name: 'subjectAltName' as const,
              altNames: names.map((value) =>
                /^[\d.]+$/.test(value) ? { type: 7 as const, ip: value } : { type: 2 as const, value },
              ),
            },
          ]),
    ],
    ...(signer === null ? {} : { ca: signer }),
  })
  return { key: made.private, cert: made.cert }
}

/** The server shows `pair` from now on; null: it speaks no TLS. */
const show = async (pair: Pair | null): Promise<void> => {
  const files = serverFiles(home)
  const user = serverUser()
  const client = new pg.Client({ connectionString: server.url.reveal() })
  await client.connect()
  if (pair !== null)
    for (const [name, text] of [
      ['server.crt', pair.cert],
      ['server.key', pair.key],
    ] as const) {
      const file = join(files.data, name)
      writeFileSync(file, text, { mode: 0o600 })
      if (user !== null) chownSync(file, user.uid, user.gid)
    }
  await client.query(`alter system set ssl = ${pair === null ? 'off' : 'on'}`)
  await client.query('select pg_reload_conf()')
  await client.end()
  await new Promise((resolve) => setTimeout(resolve, 300))
}

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'millrace-tls-'))
  server = await startEmbedded(home)
  authority = await certificate([], null)
  stranger = await certificate([], null)
  writeFileSync(join(home, 'ca.pem'), authority.cert)
})
afterAll(async () => {
  await server.release()
  rmSync(home, { recursive: true, force: true })
})

const connect = async (parameters: string): Promise<string> => {
  const url = new URL(server.url.reveal())
  url.search = parameters
  try {
    const database = await openDatabase({ databaseUrl: secret('DATABASE_URL', url.href), home: '/nowhere' })
    const { rows } = await database.pool.query<{ ssl: boolean }>('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
    await database.close()
    return rows[0]?.ssl === true ? 'encrypted' : 'plain'
  } catch (error) {
    if (!isEtlError(error)) throw error
    return `${error.code}: ${error.message}`
  }
}
const verified = (): string => `?sslmode=verify-full&sslrootcert=${encodeURIComponent(join(home, 'ca.pem'))}`

describe('sslmode=verify-full', () => {
  test('a certificate of the authority for this host passes', async () => {
    await show(await certificate(['127.0.0.1', 'localhost'], authority))
    expect(await connect(verified())).toBe('encrypted')
  })

  test.each([
    ['for another host', async () => certificate(['db.example.com'], authority), /does not match|altnames/i],
    ['that has expired', async () => certificate(['127.0.0.1'], authority, new Date(Date.now() - dayMs)), /expired/i],
    ['signed by itself', async () => certificate(['127.0.0.1'], null), /self.signed|unable to verify/i],
    ['of an authority nobody named', async () => certificate(['127.0.0.1'], stranger), /unable to|self.signed|issuer|signature/i],
  ] as const)('one %s is refused', async (_name, make, words) => {
    await show(await make())
    const said = await connect(verified())
    expect(said).toMatch(/^CONFIGURATION/)
    expect(said).toMatch(words)
    expect(said).toContain('sslrootcert')
  })

  test('a server without TLS is refused, not spoken to in the clear', async () => {
    await show(null)
    const said = await connect(verified())
    expect(said).toMatch(/^CONFIGURATION/)
    expect(said).toMatch(/SSL/)
  })
})
