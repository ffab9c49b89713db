// Structured logs on standard error, every line passed through the redactor as the last step before it is written.
import { type Logger, pino } from 'pino'
import { settingError } from './errors.ts'
import { redact } from './redact.ts'

export type Log = Logger

/** @param level default `warn`, so that a person at a terminal sees progress and not a log; `MILLRACE_LOG_LEVEL` sets it. Throws CONFIGURATION. */
export const createLog = (level = 'warn', write: (line: string) => void = (line) => process.stderr.write(line)): Log => {
  const levels = ['silent', ...Object.keys(pino.levels.values)]
  if (!levels.includes(level)) throw settingError(`MILLRACE_LOG_LEVEL is '${level}', expected one of ${levels.join(', ')}.`)
  return pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: (label) => ({ level: label }) } },
    { write: (line: string) => write(redact(line)) },
  )
}

export const silentLog: Log = pino({ level: 'silent' })
