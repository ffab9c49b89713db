// Settings that are secrets may stand in a file or come from a command: NAME_FILE=/run/secrets/key, NAME_COMMAND="pass show key".
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { EtlError } from '../core/errors.ts'

const secretNames =
  /^(DATABASE_URL|MILLRACE_WEB_TOKEN|MILLRACE_SUPERSET_(PASSWORD|DATABASE_URL)|AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)|WEB_ANALYTICS_(BATCH_)?API_KEY(_[A-Z0-9_]+?)?)_(FILE|COMMAND)$/
const commandMs = 15_000

/**
 * `raw` with every NAME_FILE and NAME_COMMAND of a secret replaced by NAME. Throws CONFIGURATION naming the variable, never what it held,
 * when two of the three are set or the secret cannot be had.
 */
export const withSecrets = (raw: Readonly<Record<string, string>>): Record<string, string> => {
  const settled: Record<string, string> = {}
  const taken = new Map<string, string>()
  for (const [name, value] of Object.entries(raw)) {
    const base = value === '' ? undefined : secretNames.exec(name)?.[1]
    if (base === undefined) continue
    const other = raw[base] ? base : taken.get(base)
    if (other !== undefined) throw new EtlError('CONFIGURATION', `${other} and ${name} are both set; keep the one that is meant.`)
    taken.set(base, name)
    settled[base] = name.endsWith('_FILE') ? fromFile(name, value) : fromCommand(name, value)
  }
  const rest = Object.entries(raw).filter(([name]) => !secretNames.test(name) && !taken.has(name))
  return { ...Object.fromEntries(rest), ...settled }
}

const fromFile = (name: string, file: string): string => {
  try {
    return withoutLineEnd(name, readFileSync(file, 'utf8'))
  } catch (cause) {
    if (cause instanceof EtlError) throw cause
    throw new EtlError('CONFIGURATION', `${name}: the file ${file} cannot be read; check that it is there and may be read.`, {
      cause,
    })
  }
}

/** The operator's own words, from the environment and nowhere else. What it prints on standard error is the operator's to see. */
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
    // The cause would carry what the command printed.
    throw new EtlError(
      'CONFIGURATION',
      `${name}: the command failed or took longer than ${commandMs / 1000} s; run it by hand to see why.`,
    )
  }
}

const withoutLineEnd = (name: string, text: string): string => {
  const value = text.replace(/\r?\n$/, '')
  if (value === '') throw new EtlError('CONFIGURATION', `${name} gives an empty secret; expected the secret on one line.`)
  return value
}
