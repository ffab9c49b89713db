// Settings that are secrets may stand in a file or come from a command: NAME_FILE=/run/secrets/key, NAME_COMMAND="pass show key".
import { execFileSync } from 'node:child_process'
import { EtlError, settingError } from './errors.ts'
import { serviceKey } from './redact.ts'
import type { Environment } from './read-setting.ts'
import { secretFilesOf, setSecretFiles, secretInFile, withoutLineEnd } from './secret-files.ts'

const commandMs = 15_000

/** Secret settings of the program itself. An API's folder under `sources` names its own. */
const ownNames = [
  'DATABASE_URL',
  'MILLRACE_READER_URL',
  'MILLRACE_WEB_TOKEN',
  'MILLRACE_HOOK_SECRET',
  'MILLRACE_SUPERSET_PASSWORD',
  'MILLRACE_SUPERSET_DATABASE_URL',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
]

/** `raw` with the program's own secrets read from files and commands. Throws as `withApiSecrets` does. */
export const withSecrets = (raw: Environment): Record<string, string> =>
  settle(raw, new RegExp(`^(${ownNames.join('|')})_(FILE|COMMAND)$`))

/**
 * `raw` with every NAME_FILE and NAME_COMMAND of an API's secret, for every account, replaced by NAME. From then on `redact` knows each of
 * them. Throws CONFIGURATION, with the variable's name but never its text, where two of the three are set or the secret cannot be
 * read.
 * @param names without an account's suffix; letters, digits and _
 */
export const withApiSecrets = (raw: Environment, names: readonly string[]): Record<string, string> => {
  if (names.length === 0) return { ...raw }
  const name = `(?:${names.join('|')})(?:_[A-Z0-9_]+?)?`
  const settled = settle(raw, new RegExp(`^(${name})_(FILE|COMMAND)$`))
  const isSecret = new RegExp(`^${name}$`)
  for (const [key, text] of Object.entries(settled)) if (isSecret.test(key)) serviceKey(key, text.trim())
  return settled
}

/** One secret whose setting a person named: from NAME, NAME_FILE or NAME_COMMAND; null: none of them is set. Throws as `withApiSecrets` does. */
export const namedSecret = (raw: Environment, name: string): string | null =>
  settle(raw, new RegExp(`^(${name})_(FILE|COMMAND)$`))[name] || null

const settle = (raw: Environment, secretNames: RegExp): Record<string, string> => {
  const settled: Record<string, string> = {}
  const files = new Map(secretFilesOf(raw))
  const taken = new Map<string, string>()
  for (const [name, value] of Object.entries(raw)) {
    const base = value === '' ? undefined : secretNames.exec(name)?.[1]
    if (base === undefined) continue
    const other = raw[base] ? base : taken.get(base)
    if (other !== undefined) throw new EtlError('CONFIGURATION', `${other} and ${name} are both set; keep one of the two.`)
    taken.set(base, name)
    const isFile = name.endsWith('_FILE')
    settled[base] = isFile ? secretInFile(name, value) : fromCommand(name, value)
    if (isFile) files.set(base, value)
  }
  const rest = Object.entries(raw).filter(([name]) => !secretNames.test(name) && !taken.has(name))
  const whole = { ...Object.fromEntries(rest), ...settled }
  setSecretFiles(whole, files)
  return whole
}

/** Runs the operator's own command, which comes from the environment alone. The operator sees its standard error. */
const fromCommand = (name: string, command: string): string => {
  try {
    const text = execFileSync('/bin/sh', ['-c', command], {
      timeout: commandMs,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    return withoutLineEnd(name, text)
  } catch (cause) {
    if (cause instanceof EtlError) throw cause
    // Without the cause: its text may hold what the command printed.
    throw settingError(`${name}: the command failed or took longer than ${commandMs / 1000} s; run it by hand to see why.`)
  }
}
