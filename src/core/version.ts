// The version of this program, from its package.json.
import { readFileSync } from 'node:fs'
import { packageFile } from './shipped.ts'

const parsed: unknown = JSON.parse(readFileSync(packageFile(), 'utf8'))

export const version =
  typeof parsed === 'object' && parsed !== null && 'version' in parsed && typeof parsed.version === 'string'
    ? parsed.version
    : 'unknown'
