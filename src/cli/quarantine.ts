// `millrace quarantine list|show|retry`: rejected rows, one in full, or their units loaded again from the landing.
import { EtlError } from '../core/errors.ts'
import { openDatabase } from '../db/connect.ts'
import { listQuarantine, showQuarantine } from '../ledger/quarantine.ts'
import { retryQuarantine } from '../pipeline/retry-quarantine.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { settingsOf, withRuntime } from './runtime.ts'
import { exitCodeOf, printSummary } from './summary.ts'

export const handle: Handler = async (invocation) => {
  const [action, ...rest] = invocation.args
  if (action === 'list') return list(invocation, rest)
  if (action === 'show') return show(invocation, rest)
  if (action === 'retry') return retry(invocation, rest)
  throw new EtlError('USAGE', `'${action}' is not one of list, show, retry.`)
}

const list = async (invocation: Invocation, pipelines: readonly string[]): Promise<number> => {
  const limit = Number(invocation.options['limit'])
  if (!Number.isSafeInteger(limit) || limit < 1) throw new EtlError('USAGE', '--limit takes a whole number from 1.')
  const settings = settingsOf(invocation)
  const database = await openDatabase({ databaseUrl: settings.databaseUrl, home: settings.home, maxConnections: 2 })
  try {
    const all = invocation.options['all'] === true
    const { rows, total } = await listQuarantine(database.kysely, { pipelines, limit, all })
    for (const row of rows) invocation.output.event({ event: 'quarantined', ...row })
    invocation.output.event({ event: 'summary', command: 'quarantine list', listed: rows.length, total })
    invocation.output.table(
      ['id', 'unit', 'part', 'line', 'column', 'reason', 'raw'],
      rows.map((row) => [
        String(row.quarantine_id),
        row.unit_key,
        String(row.part),
        String(row.line),
        row.column_name ?? '-',
        row.reason,
        clip(row.raw),
      ]),
    )
    invocation.output.line(`${rows.length} of ${total} rows. \`millrace quarantine show ID\` prints one whole.`)
    return 0
  } finally {
    await database.close()
  }
}

const clip = (raw: string): string => (raw.length > 60 ? `${raw.slice(0, 57)}...` : raw).replaceAll(/\s+/g, ' ')

const show = async (invocation: Invocation, ids: readonly string[]): Promise<number> => {
  const id = Number(ids[0])
  if (!Number.isSafeInteger(id) || id < 1)
    throw new EtlError('USAGE', 'Write `millrace quarantine show ID`; `millrace quarantine list` names the ids.')
  const settings = settingsOf(invocation)
  const database = await openDatabase({ databaseUrl: settings.databaseUrl, home: settings.home, maxConnections: 2 })
  try {
    const row = await showQuarantine(database.kysely, id)
    if (row === null)
      throw new EtlError('USAGE', `No row ${id} is in quarantine; \`millrace quarantine list\` names those that are.`)
    invocation.output.event({ event: 'summary', command: 'quarantine show', ...row })
    for (const [name, value] of Object.entries(row))
      if (name !== 'raw') invocation.output.line(`${name.padEnd(14)} ${String(value ?? '-')}`)
    invocation.output.line()
    invocation.output.line(row.raw)
    return 0
  } finally {
    await database.close()
  }
}

const retry = async (invocation: Invocation, pipelines: readonly string[]): Promise<number> =>
  withRuntime(invocation, { callsService: false, usesLanding: true, pipelines }, async (runtime, progress) => {
    const result = await retryQuarantine(runtime, invocation.signal)
    progress.stop()
    printSummary(invocation.output, 'quarantine retry', result)
    return exitCodeOf(result, false)
  })
