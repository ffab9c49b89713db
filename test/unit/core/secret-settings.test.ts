// Secrets from the environment, a file or a command; unit tests with a real file in a temporary folder, because reading one is all it does.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { forgetSecrets, redact } from '../../../src/core/redact.ts'
import { withApiSecrets, withSecrets } from '../../../src/core/secret-settings.ts'

const folder = mkdtempSync(join(tmpdir(), 'millrace-secrets-'))
const file = join(folder, 'key')
writeFileSync(file, 'from-file-0123456789\n')
afterAll(() => rmSync(folder, { recursive: true }))

const names = ['WEB_ANALYTICS_API_KEY', 'WEB_ANALYTICS_BATCH_API_KEY']
/** The program's own secrets, then those that the folder of an API names. */
const both = (raw: Record<string, string>): Record<string, string> => withApiSecrets(withSecrets(raw), names)

const failure = (raw: Record<string, string>): string => {
  try {
    both(raw)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  return 'no failure'
}

describe('secrets', () => {
  test('of the program may all stand in files, the reader of bi among them', () => {
    expect(both({ MILLRACE_READER_URL_FILE: file })).toEqual({ MILLRACE_READER_URL: 'from-file-0123456789' })
  })

  test('come from a file or a command, without the line end', () => {
    expect(both({ WEB_ANALYTICS_API_KEY_FILE: file, OTHER: '1' })).toEqual({
      WEB_ANALYTICS_API_KEY: 'from-file-0123456789',
      OTHER: '1',
    })
    expect(both({ WEB_ANALYTICS_API_KEY_ACME_COMMAND: "printf 'said\\n'" })).toEqual({
      WEB_ANALYTICS_API_KEY_ACME: 'said',
    })
    expect(
      withSecrets({ AWS_SECRET_ACCESS_KEY_FILE: file, AWS_ACCESS_KEY_ID_COMMAND: 'printf id', AWS_SHARED_FILE: 'kept' }),
    ).toEqual({
      AWS_SECRET_ACCESS_KEY: 'from-file-0123456789',
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SHARED_FILE: 'kept',
    })
    expect(both({ DATABASE_URL_FILE: file, WEB_ANALYTICS_BATCH_API_KEY_FILE: '' })).toEqual({
      DATABASE_URL: 'from-file-0123456789',
    })
  })

  test('are refused when they come from two places, by name and not by value', () => {
    const said = failure({ WEB_ANALYTICS_API_KEY: 'secret-in-the-open', WEB_ANALYTICS_API_KEY_FILE: file })
    expect(said).toContain('WEB_ANALYTICS_API_KEY and WEB_ANALYTICS_API_KEY_FILE')
    expect(said).not.toContain('secret-in-the-open')
    expect(failure({ DATABASE_URL_FILE: file, DATABASE_URL_COMMAND: 'true' })).toContain('both set')
  })

  test('that cannot be had say what to look at, and nothing a command printed', () => {
    expect(failure({ WEB_ANALYTICS_API_KEY_FILE: join(folder, 'absent') })).toContain('cannot be read')
    const said = failure({ WEB_ANALYTICS_API_KEY_COMMAND: 'echo leaked-by-the-command; exit 3' })
    expect(said).toContain('run it by hand')
    expect(said).not.toContain('leaked')
    expect(failure({ WEB_ANALYTICS_API_KEY_COMMAND: 'true' })).toContain('empty secret')
  })

  test('of other names are not read from files: only secrets have such names', () => {
    const others = { MILLRACE_HOME_FILE: file, OTHER_API_KEY_FILE: file, OTHER_API_KEY_COMMAND: 'exit 1' }
    expect(both(others)).toEqual(others)
  })

  test('of an API are taken out of everything that is printed, for every account and before any is used', () => {
    forgetSecrets()
    both({ WEB_ANALYTICS_API_KEY: 'first-0123456789', WEB_ANALYTICS_API_KEY_ACME: ' second-0123456789\n' })
    expect(redact('first-0123456789 and second-0123456789')).toBe('[secret] and [secret]')
    forgetSecrets()
  })
})
