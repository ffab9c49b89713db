// `millrace export VIEW`: a view of bi as a CSV or Parquet file, or as one Parquet file a month in a folder or bucket. `millrace superset URL`: makes connection,
// datasets and dashboards in a running Superset. `millrace mcp`: figures for assistants, over standard input and output or HTTP; reads only bi.
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { isEncryptedOrLocal, plainAddress } from '../core/address.ts'
import { counted } from '../core/counted.ts'
import { hidePassword, readerLogin, type Settings } from '../core/env.ts'
import { messageOf, settingError, usageError } from '../core/errors.ts'
import { bucketSetting } from '../core/landing-setting.ts'
import { createLog } from '../core/log.ts'
import { parseOnly } from '../core/only.ts'
import { withPackages } from '../core/optional-package.ts'
import { secret, type Secret } from '../core/redact.ts'
import { alignDown, inclusiveRange, parsePeriod } from '../core/window.ts'
import type { Database } from '../db/connect.ts'
import { loadSemantics } from '../definition/semantic-model.ts'
import { bucketClient } from '../extract/landing.ts'
import { ownFolders } from '../run/open-runtime.ts'
import { exportMonths, type ExportTarget, folderTarget } from '../semantic/export/export-months.ts'
import { exportView, type RowFilter } from '../semantic/export/export-view.ts'
import type { McpContext } from '../semantic/mcp-server.ts'
import { openReader } from '../semantic/reader.ts'
import { provisionSuperset } from '../semantic/superset/provision-superset.ts'
import { defaultConnection } from '../semantic/superset/superset-bundle.ts'
import { openSuperset } from '../semantic/superset/superset-client.ts'
import { createEndpoint, listen, webSettings } from '../web/web-server.ts'
import { interruptedCode, pipelinesFolder, settingsOf, untilInterrupted, withDatabase } from './command-runtime.ts'
import { type Handler, type Invocation, mcpPort } from './command-spec.ts'
import { readDocumented } from './docs.ts'

/** A file is complete or does not exist. */
export const exportFiles: Handler = async (invocation) => {
  const { options } = invocation
  const view = (invocation.args[0] ?? '').replace(/^bi\./, '')
  const filter = {
    only: parseOnly(options['only']),
    from: monthOf('--from', options['from']),
    to: monthOf('--to', options['to']),
  }
  const byMonth = byMonthOf(invocation)
  if (filter.from !== null && filter.to !== null) inclusiveRange(String(options['from']), String(options['to']), 'month')
  return withDatabase(invocation, async (database) => {
    await (byMonth ? writeMonths : writeFile)(invocation, database, view, filter)
    return 0
  })
}

/** First day of the month. */
const monthOf = (option: string, value: unknown): string | null =>
  value === undefined ? null : alignDown(parsePeriod(String(value), option), 'month')

const byMonthOf = ({ options }: Invocation): boolean => {
  const { by, since } = options
  if (since !== undefined && by === undefined) throw usageError('--since last needs --by month.')
  if (by !== undefined && options['format'] === 'csv')
    throw usageError('--by month writes Parquet; leave --format out or write --format parquet.')
  return by !== undefined
}

/** `--format`, else by the file's ending, else CSV. */
export const formatOf = (asked: unknown, out: unknown): 'csv' | 'parquet' =>
  (asked ?? /\.(parquet)$/i.exec(String(out))?.[1]?.toLowerCase()) === 'parquet' ? 'parquet' : 'csv'

const writeFile = async (invocation: Invocation, database: Database, view: string, filter: RowFilter): Promise<void> => {
  const { options, folder, output } = invocation
  const format = formatOf(options['format'], options['out'])
  const file = resolve(folder, String(options['out'] ?? `${view}.${format}`))
  // The finished file would replace a device or pipe.
  if (options['out'] === '-' || statSync(file, { throwIfNoEntry: false })?.isFile() === false)
    throw usageError(`--out ${String(options['out'])} is no file; name one, for example --out ${view}.${format}.`)
  if (/\.(xlsx?|ods|jsonl?)$/i.test(file))
    throw usageError(
      `--out ${String(options['out'])}: an export writes CSV or Parquet; name a .csv (spreadsheets open it) or a .parquet.`,
    )
  const rows = await exportView(database, { view, format, file, filter })
  output.summary('export', { view, format, file, rows })
  const filters = ['only', 'from', 'to'].flatMap((name) => (options[name] === undefined ? [] : [`--${name} ${options[name]}`]))
  if (rows === 0 && filters.length > 0) output.note(`No row of bi.${view} fits ${filters.join(' ')}.`)
  output.line(`wrote ${counted(rows, 'row')} to ${file}`)
}

const writeMonths = async (invocation: Invocation, database: Database, view: string, filter: RowFilter): Promise<void> => {
  const { options, output } = invocation
  const target = await targetOf(invocation, view)
  const result = await exportMonths(database, { view, filter, sinceLast: options['since'] !== undefined, target })
  const { written, unchanged, removed, rows } = result
  output.summary('export', { view, format: 'parquet', place: target.place, written, unchanged, removed, rows })
  output.line(
    `wrote ${counted(rows, 'row')} in ${counted(written.length, 'month')} to ${target.place}` +
      `; ${unchanged} unchanged${removed.length === 0 ? '' : `, ${removed.length} removed`}`,
  )
}

const targetOf = async (invocation: Invocation, view: string): Promise<ExportTarget> => {
  const { options, folder, signal } = invocation
  const out = String(options['out'] ?? view)
  if (!out.startsWith('s3://')) return folderTarget(resolve(folder, out))
  const { openBucketFiles } = await withPackages(
    'Exports to a bucket',
    [bucketClient],
    () => import('../extract/bucket-upload.ts'),
  )
  return openBucketFiles(bucketSetting(settingsOf(invocation).raw, out, '--out'), signal)
}

const passwordName = 'MILLRACE_SUPERSET_PASSWORD'
const warehouseName = 'MILLRACE_SUPERSET_DATABASE_URL'

/** Idempotent: a second call changes only what differs. */
export const superset: Handler = async (invocation) => {
  const { options, output, signal } = invocation
  const settings = settingsOf(invocation)
  const url = addressOf(invocation.args[0] ?? settings.raw['MILLRACE_SUPERSET_URL'])
  const documented = await readDocumented(pipelinesFolder(invocation))
  const warehouse = warehouseOf(settings)
  const password = passwordOf(settings)
  const client = await openSuperset({ url, user: settings.raw['MILLRACE_SUPERSET_USER'] || 'admin', password, signal })
  const connection = String(options['connection'] ?? defaultConnection)
  const made = await provisionSuperset({ client, connection, warehouse, ...documented, tell: output.note })
  const { datasets, charts, skipped } = made
  const pages = made.dashboards.map(({ slug, ...one }) => ({ ...one, url: `${url}/superset/dashboard/${slug}/` }))
  output.summary('superset', { connection, datasets, charts, dashboards: pages, skipped })
  for (const page of pages) output.line(`${page.title}: ${page.url}`)
  for (const text of skipped) output.line(`left out ${text}.`)
  return skipped.length > 0 && pages.length === 0 ? 1 : 0
}

/** The address without a slash at the end. A password is sent to it, so it must be https, except on this machine and in a network of containers. */
const addressOf = (text: string | undefined): string => {
  if (!text) throw usageError('Which Superset? Name its address: `millrace superset https://superset.example.com`.')
  const url = plainAddress(text)
  if (url === null)
    throw usageError(
      `'${URL.parse(text)?.host || text}' is no address of Superset, expected for example https://superset.example.com.`,
    )
  if (!isEncryptedOrLocal(url) && url.hostname.includes('.'))
    throw usageError(`${url.origin} would carry a password in the open; use its https address.`)
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

const passwordOf = ({ raw }: Settings): Secret => {
  const text = raw[passwordName]
  if (text) return secret(passwordName, text)
  throw settingError(
    `${passwordName} is not set; put there the password of MILLRACE_SUPERSET_USER (admin), or name a file with ${passwordName}_FILE.`,
  )
}

/** The warehouse's address for SQLAlchemy. Not DATABASE_URL: that login may write, and readers of dashboards must not. */
const warehouseOf = ({ raw }: Settings): Secret => {
  const text = raw[warehouseName]
  if (!text)
    throw settingError(
      `${warehouseName} is not set; put there the warehouse as Superset reaches it, with a login that only reads: postgres://superset:…@host:5432/warehouse ` +
        '(create role superset login password … in role bi_reader; then millrace migrate).',
    )
  const url = URL.parse(text)
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol))
    throw settingError(`${warehouseName} is not an address such as postgres://superset:password@host:5432/warehouse.`)
  hidePassword(warehouseName, text)
  return secret(warehouseName, text.replace(/^postgres(ql)?:/, 'postgresql+psycopg2:'))
}

const path = '/mcp'

const loadProtocol = () => withPackages('Assistants', ['@modelcontextprotocol/server'], () => import('../semantic/mcp-server.ts'))

/** Standard output is for the protocol; all other output goes to standard error. */
export const mcp: Handler = async (invocation) => {
  if (invocation.options['port'] !== undefined && invocation.options['http'] !== true) throw usageError('--port needs --http.')
  const settings = settingsOf(invocation)
  const model = await loadSemantics(ownFolders(pipelinesFolder(invocation), 'semantic'))
  const { databaseUrl, home } = settings
  const reader = await openReader({ readerUrl: readerLogin(settings), databaseUrl, home })
  const log = createLog(settings.raw['MILLRACE_LOG_LEVEL'])
  const context: McpContext = { reader, model, onError: (error) => log.warn({ error: messageOf(error) }, 'mcp') }
  try {
    if (invocation.options['http'] === true) return await overHttp(invocation, settings, context)
    invocation.output.note(`millrace mcp: reads ${reader.display}; speaks on standard input and output.`)
    const { serveOnStdio } = await loadProtocol()
    await serveOnStdio(context, invocation.signal)
    return 0
  } finally {
    await reader.close()
  }
}

const overHttp = async (invocation: Invocation, { raw }: Settings, context: McpContext): Promise<number> => {
  const { port } = invocation.options
  const { address, token } = webSettings({ ...raw, MILLRACE_WEB_PORT: String(port ?? mcpPort) }, mcpPort)
  const { createMcpEndpoint, mostRequestBytes } = await loadProtocol()
  const endpoint = createMcpEndpoint(context)
  const app = createEndpoint({ path, token, mostBytes: mostRequestBytes, nowMs: Date.now, handle: endpoint.handle })
  const server = await listen(app, address)
  try {
    invocation.output.event({ event: 'mcp', url: `${server.url}${path}` })
    invocation.output.line(
      `mcp: ${server.url}${path} (${token === null ? 'this machine alone' : 'Authorization: Bearer MILLRACE_WEB_TOKEN'})`,
    )
    await untilInterrupted(invocation)
    return interruptedCode
  } finally {
    await endpoint.close()
    await server.close()
  }
}
