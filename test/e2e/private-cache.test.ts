// Where compiled code is kept: in a folder of the login alone, since what lies there is run.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'

const uid = process.getuid?.()
const program = join(import.meta.dirname, '..', '..', 'bin', 'millrace.js')

let shared: string
let cache: string
beforeEach(() => {
  shared = mkdtempSync(join(tmpdir(), 'millrace-shared-'))
  cache = join(shared, `millrace-${uid}`)
})
afterEach(() => rmSync(shared, { recursive: true, force: true }))

const start = (): void => {
  const { NODE_COMPILE_CACHE: _, ...environment } = process.env
  execFileSync(process.execPath, [program, '--version'], { env: { ...environment, TMPDIR: shared } })
}

describe('compiled code', () => {
  test('is kept in a folder that the login alone may enter', () => {
    start()
    expect(statSync(cache).mode & 0o777).toBe(0o700)
    expect(readdirSync(cache)).not.toEqual([])
  })

  test('is neither kept nor run where another login made the folder open to all', () => {
    mkdirSync(cache)
    chmodSync(cache, 0o777)
    start()
    expect(readdirSync(cache)).toEqual([])
  })

  test('is not kept behind a link that another login may have laid', () => {
    const elsewhere = join(shared, 'elsewhere')
    mkdirSync(elsewhere, { mode: 0o700 })
    symlinkSync(elsewhere, cache)
    start()
    expect(readdirSync(elsewhere)).toEqual([])
  })
})
