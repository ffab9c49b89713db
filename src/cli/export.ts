// `millrace export VIEW`: a view of bi as a CSV or Parquet file, or as one Parquet file a month in a folder or bucket.
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { counted } from '../core/counted.ts'
import { EtlError } from '../core/errors.ts'
import { bucketSetting } from '../core/landing-setting.ts'
import { withPackages } from '../core/optional-package.ts'
import { alignDown, parsePeriod } from '../core/window.ts'
import type { Database } from '../db/connect.ts'
import { bucketClient } from '../extract/landing.ts'
import { type ExportTarget, exportMonths, folderTarget } from '../semantic/export/export-months.ts'
import { exportView, type RowFilter } from '../semantic/export/export-view.ts'
import { settingsOf, withDatabase } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { parseOnly } from './command-options.ts'

/** The file is whole or not there. */
export const exportFiles: Handler = async (invocation) => {
  const { options } = invocation
  const view = (invocation.args[0] ?? '').replace(/^bi\./, '')
  const filter = {
    only: parseOnly(options['only']),
    from: monthOf('--from', options['from']),
    to: monthOf('--to', options['to']),
  }
  const byMonth = byMonthOf(invocation)
  return withDatabase(invocation, async (database) => {
    await (byMonth ? writeMonths : writeFile)(invocation, { database, view, filter })
    return 0
  })
}

/** First day of the month. */
const monthOf = (option: string, value: unknown): string | null =>
  value === undefined ? null : alignDown(parsePeriod(String(value), option), 'month')

const byMonthOf = ({ options }: Invocation): boolean => {
  const { by, since } = options
  if (by !== undefined && by !== 'month') throw new EtlError('USAGE', `--by is '${String(by)}', expected month.`)
  if (since !== undefined && String(since).toLowerCase() !== 'last')
    throw new EtlError('USAGE', `--since is '${String(since)}', expected last.`)
  if (since !== undefined && by === undefined) throw new EtlError('USAGE', '--since last needs --by month.')
  if (by !== undefined && options['format'] === 'csv')
    throw new EtlError('USAGE', '--by month writes Parquet; leave --format out or write --format parquet.')
  return by !== undefined
}

interface Asked {
  readonly database: Database
  readonly view: string
  readonly filter: RowFilter
}

/** What `--format` says, else what the name of the file ends with, else CSV. */
export const formatOf = (asked: unknown, out: unknown): 'csv' | 'parquet' => {
  if (/\.(xlsx?|ods|jsonl?)$/i.test(String(out)))
    throw new EtlError(
      'USAGE',
      `--out ${String(out)}: an export writes CSV or Parquet; name a .csv (spreadsheets open it) or a .parquet.`,
    )
  const format = asked ?? (/\.parquet$/i.test(String(out)) ? 'parquet' : 'csv')
  if (format === 'csv' || format === 'parquet') return format
  throw new EtlError('USAGE', `--format is '${String(format)}', expected csv or parquet.`)
}

const writeFile = async ({ options, folder, output }: Invocation, { database, view, filter }: Asked): Promise<void> => {
  const format = formatOf(options['format'], options['out'])
  const file = resolve(folder, String(options['out'] ?? `${view}.${format}`))
  if (options['out'] === '-' || statSync(file, { throwIfNoEntry: false })?.isDirectory() === true)
    throw new EtlError('USAGE', `--out ${String(options['out'])} is no file; name one, for example --out ${view}.${format}.`)
  const rows = await exportView(database, { view, format, file, filter })
  output.summary('export', { view, format, file, rows })
  output.line(`wrote ${counted(rows, 'row')} to ${file}`)
}

const writeMonths = async (invocation: Invocation, { database, view, filter }: Asked): Promise<void> => {
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
    () => import('../extract/bucket-files.ts'),
  )
  return openBucketFiles(bucketSetting(settingsOf(invocation).raw, out, '--out'), signal)
}
