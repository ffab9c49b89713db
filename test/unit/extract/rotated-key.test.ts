import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readKey } from '../../../src/core/read-setting.ts'
import { redact } from '../../../src/core/redact.ts'
import { withApiSecrets } from '../../../src/core/secret-settings.ts'
import { type Answer, get, post, startFaultServer, testClient } from '../../support/fault-server.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-rotated-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Takes one key, and answers 401 to any other. */
const takes =
  (key: () => string): Answer =>
  ({ headers }, response) => {
    const isRight = headers['x-rotated'] === key()
    response.writeHead(isRight ? 200 : 401, { 'content-type': 'application/json' })
    response.end('{}')
  }

test('a key that was rotated in its file is read again when the service refuses it; a submission is sent once with it', async () => {
  const file = join(folder, 'key')
  let right = 'first-rotated-key'
  writeFileSync(file, `${right}\n`)
  const key = readKey(withApiSecrets({ ROTATED_KEY_FILE: file }, ['ROTATED_KEY']), 'ROTATED_KEY')
  const server = await startFaultServer(takes(() => right))
  const { http } = testClient(server.url, { authenticate: () => ({ headers: { 'x-rotated': key } }) })
  try {
    expect((await http.read(get(http))).status).toBe(200)
    right = 'second-rotated-key'
    // Not in the file yet: the answer is the service's own.
    expect((await http.read(get(http))).status).toBe(401)
    expect(server.hits).toHaveLength(2)
    writeFileSync(file, `${right}\n`)
    expect((await http.read(post(http))).status).toBe(200)
    expect(server.hits.slice(2).map(({ headers }) => headers['x-rotated'])).toEqual(['first-rotated-key', 'second-rotated-key'])
    expect(redact('it said second-rotated-key')).toBe('it said [secret]')
    // What is no key does not take its place.
    writeFileSync(file, 'half a\nkey')
    right = 'third'
    expect((await http.read(get(http))).status).toBe(401)
    expect(server.hits.at(-1)?.headers['x-rotated']).toBe('second-rotated-key')
  } finally {
    await server.close()
  }
})
