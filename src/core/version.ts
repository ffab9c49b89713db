// The version of this program, from its package.json: two folders up in a checkout, three in the compiled package.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const packageFile = [join('..', '..'), join('..', '..', '..')]
  .map((up) => join(import.meta.dirname, up, 'package.json'))
  .find((file) => existsSync(file))

const parsed: unknown = packageFile === undefined ? null : JSON.parse(readFileSync(packageFile, 'utf8'))

export const version =
  typeof parsed === 'object' && parsed !== null && 'version' in parsed && typeof parsed.version === 'string'
    ? parsed.version
    : 'unknown'
