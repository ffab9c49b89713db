// Rejected rows with the raw record, and how to load them again.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { count, moment } from '../format.ts'
import { command, type Html, page, table, unitLink } from '../layout.ts'
import { countQuarantined, type QuarantineLine, quarantined } from '../../reads/quarantine.ts'

const shown = 500

export const quarantineTable = (caption: string, rows: readonly QuarantineLine[]): Html =>
  table(
    caption,
    ['Row', 'Unit', 'Line', 'Column', 'Reason', 'Raw record', 'Since'],
    rows.map((row) => [
      `#${row.quarantine_id}`,
      unitLink(row.unit_id, row.unit_key),
      `part ${row.part}, line ${row.line}`,
      row.column_name ?? '–',
      row.reason,
      html`<code>${row.raw}</code>`,
      moment(row.created_at),
    ]),
    'No row is in quarantine.',
  )

export const quarantinePage = async (context: WebContext): Promise<Html> => {
  const [counts, rows] = await Promise.all([countQuarantined(context.kysely), quarantined(context.kysely, shown)])
  const body = html`${table(
    'By pipeline',
    ['Pipeline', 'Rows', 'After the definition is mended'],
    counts.map((row) => [row.pipeline, count(row.rows), command(`millrace quarantine retry ${row.pipeline}`)]),
    'No row is in quarantine.',
  )}
${rows.length === 0 ? '' : quarantineTable(rows.length === shown ? `The newest ${count(shown)} rows` : 'Rows', rows)}`
  return page({ title: 'Quarantine', place: '/quarantine', warehouse: context.warehouse, body })
}
