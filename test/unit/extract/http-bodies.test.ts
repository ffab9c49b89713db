// Bodies as they come over a socket: encodings, cuts, stalls, sizes.
import { createHash, setFips } from 'node:crypto'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { EtlError } from '../../../src/core/errors.ts'
import { namedChecksum } from '../../../src/extract/http-answer.ts'
import type { UnitHttpOptions } from '../../../src/extract/http-types.ts'
import { type Answer, faultServers, get, testClient } from '../../support/fault-server.ts'

const { serve, served } = faultServers()

const codeOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work
    return 'none'
  } catch (error) {
    return error instanceof EtlError ? error.code : String(error)
  }
}

/** What a read of what is answered ends with. */
const codeAfter = async (answer: Answer, unit: Partial<UnitHttpOptions> = {}): Promise<string> => {
  const { http } = await served(answer, {}, { timeoutMs: 150, attempts: 1, ...unit })
  return codeOf(http.read(get(http)))
}

const text = Buffer.from(
  JSON.stringify(Array.from({ length: 4_000 }, (_, index) => createHash('md5').update(String(index)).digest('hex'))),
)
const encoders: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  identity: (bytes) => bytes,
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
}
const encoded = (name: string): Buffer => encoders[name]?.(text) ?? text
const one = { timeoutMs: 150, attempts: 1 }

describe.each(Object.keys(encoders))('a body encoded as %s', (encoding) => {
  test('comes out as it was meant', async () => {
    const { http, recorded } = await served((_, response) => {
      response.writeHead(200, { 'content-encoding': encoding })
      response.end(encoded(encoding))
    })
    const answer = await http.read(get(http))
    expect(answer.bytes.equals(text)).toBe(true)
    expect(recorded[0]?.bytes).toBe(text.length)
  })

  test('is TRUNCATED when the connection ends in the middle', async () => {
    expect(
      await codeAfter((_, response) => {
        response.writeHead(200, { 'content-encoding': encoding })
        response.write(encoded(encoding).subarray(0, 2_000))
        setTimeout(() => response.socket?.destroy(), 10)
      }),
    ).toBe('TRUNCATED')
  })

  test('is TRUNCATED when fewer bytes come than announced', async () => {
    expect(
      await codeAfter((_, response) => {
        const bytes = encoded(encoding)
        response.writeHead(200, { 'content-encoding': encoding, 'content-length': bytes.length + 1 })
        response.write(bytes)
        setTimeout(() => response.socket?.end(), 10)
      }),
    ).toBe('TRUNCATED')
  })

  test('is SERVICE_TIMEOUT when it stands still', async () => {
    expect(
      await codeAfter((_, response) => {
        response.writeHead(200, { 'content-encoding': encoding })
        response.write(encoded(encoding).subarray(0, 2_000))
      }),
    ).toBe('SERVICE_TIMEOUT')
  })

  test('is TOO_LARGE beyond the limit', async () => {
    expect(
      await codeAfter(
        (_, response) => {
          response.writeHead(200, { 'content-encoding': encoding })
          response.end(encoded(encoding))
        },
        { maxBodyBytes: text.length - 1 },
      ),
    ).toBe('TOO_LARGE')
  })
})

describe.each(['gzip', 'deflate', 'br', 'zstd'])('a body that says it is %s', (encoding) => {
  test('is TRUNCATED when the compressed data ends early inside a whole HTTP body', async () => {
    expect(
      await codeAfter((_, response) => {
        response.writeHead(200, { 'content-encoding': encoding })
        response.end(encoded(encoding).subarray(0, 5_000))
      }),
    ).toBe('TRUNCATED')
  })

  test('is BAD_RESPONSE when it is something else', async () => {
    expect(
      await codeAfter((_, response) => {
        response.writeHead(200, { 'content-encoding': encoding })
        response.end('nothing of the kind, but long enough to be looked at')
      }),
    ).toBe('BAD_RESPONSE')
  })
})

test.each(['identity', 'gzip'])(
  'an answer that drips (%s) is none: it ends after twice the time-out',
  async (encoding) => {
    const { server, http } = await served(
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/csv', 'content-encoding': encoding })
        const packed = encoded(encoding)
        let sent = 0
        const dripping = setInterval(() => response.write(packed.subarray(sent, ++sent)), 20)
        response.on('close', () => clearInterval(dripping))
      },
      {},
      one,
    )
    const from = performance.now()
    expect(await codeOf(http.read(get(http)))).toBe('SERVICE_TIMEOUT')
    const download = async (): Promise<void> => {
      for await (const _ of (await http.download(`${server.url.origin}/file`)).body);
    }
    expect(await codeOf(download())).toBe('SERVICE_TIMEOUT')
    expect(performance.now() - from).toBeLessThan(8_000)
  },
  20_000,
)

test('a page has at most 64 MiB, whatever limits.max_body allows', async () => {
  expect(
    await codeAfter(
      (_, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 64 * 1024 * 1024 + 1 })
        response.write('[')
      },
      { maxBodyBytes: 1_000_000_000 },
    ),
  ).toBe('TOO_LARGE')
})

test('encodings on top of each other are taken off in turn', async () => {
  const { http } = await served((_, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip, br' })
    response.end(brotliCompressSync(gzipSync(text)))
  })
  expect((await http.read(get(http))).bytes.equals(text)).toBe(true)
})

test('an encoding nobody asked for is refused instead of being read as it is', async () => {
  expect(
    await codeAfter((_, response) => {
      response.writeHead(200, { 'content-encoding': 'compress' })
      response.end('x')
    }),
  ).toBe('BAD_RESPONSE')
})

test('a body announced as larger than the limit is not read at all', async () => {
  let written = 0
  const { server, http } = await served(
    (_, response) => {
      response.writeHead(200, { 'content-length': 1_000_000_000 })
      const more = (): void => {
        written += 65_536
        if (!response.destroyed && response.write(Buffer.alloc(65_536))) setImmediate(more)
      }
      more()
    },
    {},
    { ...one, maxBodyBytes: 10_000_000 },
  )
  expect(await codeOf(http.download(`${server.url.href}f`).then(async ({ body }) => Array.fromAsync(body)))).toBe('TOO_LARGE')
  expect(written).toBeLessThan(10_000_000)
})

test('a bomb is refused long before it is unpacked, in flat memory', async () => {
  // 400 MB, packed as ten members of one file: packing them takes a tenth of the time.
  const bomb = Buffer.concat(Array<Buffer>(10).fill(gzipSync(Buffer.alloc(40_000_000), { level: 9 })))
  const server = await serve((_, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': bomb.length })
    response.end(bomb)
  })
  const { http } = testClient(server.url ?? new URL('http://x'), {}, { timeoutMs: 5_000, maxBodyBytes: 4_000_000_000 })
  let bytes = 0
  const { body } = await http.download(`${server.url.href}bomb`)
  const code = await codeOf(
    (async () => {
      for await (const chunk of body) bytes += chunk.length
    })(),
  )
  expect(code).toBe('TOO_LARGE')
  expect(bytes).toBeLessThan(64_000_000)
})

test('of several large answers at once one is read to its end after the other', async () => {
  const mebibyte = Buffer.alloc(1024 * 1024, 'x')
  const size = 40
  // Sockets hold some of what nobody reads yet.
  const beyondSockets = 24
  const inHand = new Set<object>()
  let most = 0
  const server = await serve(async (_, response) => {
    response.writeHead(200)
    for (let sent = 0; sent < size; sent += 1) {
      if (!response.write(mebibyte)) await new Promise((resolve) => response.once('drain', resolve))
      if (sent > beyondSockets) inHand.add(response)
      most = Math.max(most, inHand.size)
    }
    inHand.delete(response)
    response.end()
  })
  const { http } = testClient(server.url ?? new URL('http://x'), {}, { timeoutMs: 20_000, attempts: 1 })
  const answers = await Promise.all(Array.from({ length: 4 }, () => http.read(get(http))))
  expect(answers.map(({ bytes }) => bytes.length)).toEqual(Array.from({ length: 4 }, () => size * mebibyte.length))
  expect(most).toBe(1)
}, 60_000)

test('who waits for a large answer stops waiting at once when it is stopped, and the next goes on', async () => {
  const many = Buffer.alloc(20 * 1024 * 1024, 'x')
  const stop = new AbortController()
  let asked = 0
  const server = await serve((_, response) => {
    asked += 1
    response.writeHead(200, { 'content-length': many.length })
    // The first never ends by itself.
    if (asked === 1) response.write(many.subarray(1))
    else response.end(many)
  })
  const url = server.url ?? new URL('http://x')
  const hanging = testClient(url, {}, { timeoutMs: 20_000, attempts: 1, signal: stop.signal }).http
  const first = codeOf(hanging.read(get(hanging)))
  await expect.poll(() => asked).toBe(1)
  await new Promise((resolve) => setTimeout(resolve, 300))
  const { http } = testClient(url, {}, { timeoutMs: 20_000, attempts: 1 })
  const second = http.read(get(http))
  await new Promise((resolve) => setTimeout(resolve, 300))
  stop.abort(new Error('stopped'))
  await first
  expect((await second).bytes.length).toBe(many.length)
}, 60_000)

describe('a download whose answer names a checksum of its body', () => {
  const body = Buffer.from('domain,visits\na.com,1\n')
  const md5 = createHash('md5').update(body).digest('base64')
  const sha256 = createHash('sha256').update(body).digest('base64')
  const read = async (headers: Record<string, string>, sent: Buffer): Promise<string | null> => {
    const { server, http } = await served((_, response) => {
      response.writeHead(200, { ...headers, 'content-length': sent.length })
      response.end(sent)
    })
    const file = await http.download(`${server.url.href}f`)
    return Array.fromAsync(file.body).then(
      () => null,
      (error: EtlError) => error.code,
    )
  }

  test.each([
    ['content-md5', md5],
    ['digest', `SHA-256=${sha256}`],
    ['content-digest', `sha-512=:AAAA:, sha-256=:${sha256}:`],
    ['repr-digest', `sha-256=:${sha256}:`],
  ])('is whole by %s, and not where other bytes came', async (header, value) => {
    expect(await read({ [header]: value }, body)).toBeNull()
    expect(await read({ [header]: value }, Buffer.from(body.toString().replace('1', '2')))).toBe('TRUNCATED')
  })

  test('is read where this machine may not count MD5 (FIPS)', () => {
    setFips(true)
    try {
      expect(namedChecksum({ 'content-md5': md5 })).toBeNull()
    } finally {
      setFips(false)
    }
  })

  test.each([
    ['content-md5', 'not a checksum'],
    ['content-md5', createHash('md5').update(body).digest('hex')],
    ['digest', 'unixsum=30637'],
  ])('is read where %s says nothing that can be compared: %s', async (header, value) => {
    expect(await read({ [header]: value }, body)).toBeNull()
  })
})
