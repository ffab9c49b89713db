// Rejected rows with the raw record, and how to load them again.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { count, moment } from '../format.ts'
import { command, type Html, page, table, unitLink } from '../layout.ts'
import { countQuarantined, type QuarantineLine, quarantined } from '../reads/read-quarantine.ts'

const shown = 500

/** The unit, or the job where nobody can tell whose record it is. */
const whose = ({ unit_id, unit_key, job_id, pipeline }: QuarantineLine): Html | string =>
  unit_id === null ? `not known (${pipeline}, job #${job_id})` : unitLink(unit_id, unit_key ?? `#${unit_id}`)

/** Rejected records with their reasons. */
export const quarantineTable = (caption: string, rows: readonly QuarantineLine[]): Html =>
  table(
    caption,
    ['Row', 'Unit', 'Line', 'Column', 'Reason', 'Raw record', 'Since'],
    rows.map((row) => [
      `#${row.quarantine_id}`,
      whose(row),
      `part ${row.part}, line ${row.line}`,
      row.column_name ?? '–',
      row.reason,
      html`<code>${row.raw}</code>`,
      moment(row.created_at),
    ]),
    'No row is in quarantine.',
  )

/** Open records, newest first. */
export const quarantinePage = async (context: WebContext): Promise<Html> => {
  const [counts, rows] = await Promise.all([countQuarantined(context.kysely), quarantined(context.kysely, shown)])
  const body = html`${table(
    'By pipeline',
    ['Pipeline', 'Rows', 'Once the definition is fixed'],
    counts.map((row) => [row.pipeline, count(row.rows), command(`millrace quarantine retry ${row.pipeline}`)]),
    'No row is in quarantine.',
  )}
${rows.length === 0 ? '' : quarantineTable(rows.length === shown ? `The newest ${count(shown)} rows` : 'Rows', rows)}`
  return page({ title: 'Quarantine', place: '/quarantine', warehouse: context.warehouse, body })
}
