// `millrace export VIEW`: a view of bi as a CSV or Parquet file.
import { resolve } from 'node:path'
import { EtlError } from '../core/errors.ts'
import { openDatabase } from '../db/connect.ts'
import { assertMigrated } from '../db/migrate.ts'
import { exportView } from '../export/export-view.ts'
import type { Handler } from './command-spec.ts'
import { formatNumber } from './output.ts'
import { settingsOf } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const [view = ''] = invocation.args
  const format = String(invocation.options['format'])
  if (format !== 'csv' && format !== 'parquet') throw new EtlError('USAGE', `--format is '${format}', expected csv or parquet.`)
  const file = resolve(invocation.folder, String(invocation.options['out'] ?? `${view}.${format}`))
  const settings = settingsOf(invocation)
  const database = await openDatabase({ databaseUrl: settings.databaseUrl, home: settings.home, maxConnections: 2 })
  try {
    await assertMigrated(database, { folders: [], allowUnknown: true })
    const rows = await exportView(database, { view: view.replace(/^bi\./, ''), format, file })
    invocation.output.event({ event: 'summary', command: 'export', view, format, file, rows })
    invocation.output.line(`wrote ${formatNumber(rows)} rows to ${file}`)
    return 0
  } finally {
    await database.close()
  }
}
