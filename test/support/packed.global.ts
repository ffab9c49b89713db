// Packs the program once for all tests of the package.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pack, tarballName } from '../first-hour/packed.ts'

let folder: string | null = null

export const setup = (): void => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-packed-'))
  process.env[tarballName] = pack(folder)
}

export const teardown = (): void => {
  if (folder !== null) rmSync(folder, { recursive: true, force: true })
}
