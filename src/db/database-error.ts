// Turns errors of PostgreSQL and its driver into EtlErrors that say what to do.
import { type ErrorCode, EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { redact, type Secret } from '../core/redact.ts'

/** `user@host:port/database` of a connection address. */
export const describeUrl = (url: Secret): string => {
  const { hostname, port, pathname, username } = new URL(url.reveal())
  return `${decodeURIComponent(username) || 'postgres'}@${hostname || 'localhost'}:${port || '5432'}${pathname}`
}

const networkCodes = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ECONNRESET',
  'EPIPE',
])

const describe = (error: unknown): { readonly code: ErrorCode; readonly advice: string } => {
  const [sqlState, message] = [sqlStateOf(error), messageOf(error)]
  if (
    networkCodes.has(sqlState) ||
    /timeout exceeded when trying to connect|Query read timeout|Connection terminated|connection error|connection has been discarded/i.test(
      message,
    )
  ) {
    return { code: 'DATABASE_UNREACHABLE', advice: 'Check that it runs and that DATABASE_URL names the right host and port.' }
  }
  if (sqlState.startsWith('28')) return { code: 'CONFIGURATION', advice: 'Check the user and password in DATABASE_URL.' }
  if (sqlState === '3D000') return { code: 'CONFIGURATION', advice: 'Create the database, or correct its name in DATABASE_URL.' }
  if (sqlState === '25006') return { code: 'DATABASE_READ_ONLY', advice: 'Set DATABASE_URL to a server that accepts writes.' }
  if (sqlState === '53100')
    return { code: 'DISK', advice: "The database server's disk is full; free space there, then run the same command again." }
  if (sqlState === '42501') {
    const [, name] = /^permission denied for database ([^"]+)$/.exec(message) ?? []
    const advice =
      name === undefined
        ? 'Grant the missing right to the user in DATABASE_URL.'
        : `Set DATABASE_URL to a login that may create schemas, or let this one: \`grant create on database "${name}" to …\`.`
    return { code: 'CONFIGURATION', advice }
  }
  if (/^(08|57P0)/.test(sqlState))
    return { code: 'DATABASE_UNREACHABLE', advice: 'It was restarted or cut off; run the command again to resume.' }
  if (sqlState === '55P03')
    return {
      code: 'DATABASE',
      advice:
        'Another session holds a lock that it needs; pg_blocking_pids() shows which. Run the command again once that session has ended.',
    }
  const limit = { '57014': 'statement_timeout', '25P04': 'transaction_timeout' }[sqlState]
  if (limit !== undefined)
    return {
      code: 'DATABASE',
      advice: `Unless somebody cancelled it, ${limit} of the server, the database or the login is too short: \`alter role … set ${limit} = 0\` for the login in DATABASE_URL, then run the command again.`,
    }
  // A function of the database's owner, such as an event trigger's.
  const [, name] = /^PL\/pgSQL function (\S+)/.exec(error instanceof Error ? String(Reflect.get(error, 'where')) : '') ?? []
  if (name !== undefined && /^42(P01|883|704)/.test(sqlState))
    return {
      code: 'DATABASE',
      advice: `It is in the function ${name}. Millrace works with an empty search_path: name the schema there, or \`alter function … set search_path = public\`.`,
    }
  if (/certificate|SSL|self.signed/i.test(message))
    return { code: 'CONFIGURATION', advice: 'Check sslmode and sslrootcert in DATABASE_URL.' }
  return { code: 'DATABASE', advice: 'Run the command again; if it fails again, the message names the reason.' }
}

/** SQLSTATE, or the network's own code; empty where there is none. */
export const sqlStateOf = (error: unknown): string => {
  if (typeof error !== 'object' || error === null || !('code' in error)) return ''
  return typeof error.code === 'string' ? error.code : ''
}

/** The constraint or NOT NULL column that a row violates; null: the error is about something else. */
export const violatedConstraint = (error: unknown): string | null => {
  if (!(error instanceof Error) || !/^23/.test(sqlStateOf(error))) return null
  const kind = ['constraint', 'column'].find((one) => typeof Reflect.get(error, one) === 'string')
  return kind === undefined ? null : `${kind} ${Reflect.get(error, kind)}`
}

/** A lock of somebody else was in the way (55P03), or each waited for the other (40P01): the statement is none the worse for it. */
export const isLockedOut = (error: unknown): boolean => ['55P03', '40P01'].includes(sqlStateOf(error))

/** What kept an object from being dropped (2BP01), in PostgreSQL's words. */
export const dependentsOf = (error: unknown): string => {
  const said: unknown = error instanceof Error ? Reflect.get(error, 'detail') : undefined
  return typeof said === 'string' ? said.split('\n').join('; ') : messageOf(error)
}

/** Whether `error` comes from the database or its driver. */
export const isDatabaseError = (error: unknown): boolean => {
  const state = sqlStateOf(error)
  return (
    // EPERM and EROFS look like SQLSTATEs, but come from the file system.
    /^(?!E[A-Z]{4}$)[0-9A-Z]{5}$/.test(state) ||
    networkCodes.has(state) ||
    /Query read timeout|Connection terminated|connection error|Client has encountered|connection has been discarded/i.test(
      messageOf(error),
    )
  )
}

const isAway = (error: unknown): boolean => describe(error).code === 'DATABASE_UNREACHABLE'

/**
 * Whether the error is transient: caused by the server, the connection or another session, such as an outage, a restore, a login that is blocked for a while, a
 * lock, a full disk. Other errors belong to the statement.
 */
export const isTransient = (error: unknown): boolean => {
  if (isEtlError(error)) return error.code === 'DATABASE_UNREACHABLE' || isTransient(error.cause)
  return isDatabaseError(error) && (isAway(error) || /^(?:25006|25P0[34]|28|3D|40|53|55|57|58)/.test(sqlStateOf(error)))
}

/** @param display the database as people know it, without the password. */
export const databaseError = (error: unknown, display: string): EtlError => {
  if (isEtlError(error)) return error
  const { code, advice } = describe(error)
  // A host with several addresses fails with an empty message and a list of errors.
  const said = error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : messageOf(error)
  return new EtlError(code, `The warehouse ${display}: ${redact(said)}. ${advice}`, { cause: error })
}
