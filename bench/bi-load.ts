// Loads into the large warehouse while dashboards ask, or before they do: a unit's rows come again, one in twenty with other clicks.
import { sql } from 'kysely'
import type { Mart } from '../src/core/mart.ts'
import type { Definition } from '../src/core/types.ts'
import { windowAt } from '../src/core/window.ts'
import type { Database } from '../src/db/connect.ts'
import { withSession } from '../src/db/session.ts'
import { addDimensions } from '../src/load/load-dimensions.ts'
import { refreshSummaries } from '../src/load/summaries.ts'
import { copiedColumns, dataTable, inScope } from '../src/load/table-columns.ts'
import { loadOnce } from './load-once.ts'

/** Which unit is loaded, and the run's number, by which other rows differ each time. */
export interface Restated {
  readonly month: string
  readonly domain: string
  readonly round: number
}

/** The unit's rows as the service would send them now, as COPY text. */
const answerOf = async (database: Database, definition: Definition, { month, domain, round }: Restated): Promise<string[]> => {
  const cells = [...copiedColumns(definition).map(({ name }) => name), '_unit_id'].map((name) => {
    const text = name === 'clicks' ? `(clicks + (abs(hashtext(keyword)) % 20 = ${round % 20})::int)` : `"${name}"`
    return `coalesce(${text}::text, '\\N')`
  })
  const { rows } = await database.pool.query<{ line: string }>(
    `select concat_ws(E'\t', ${cells.join(', ')}) as line from data.keywords_v1 where month = $1 and domain = $2 and country = 'us'`,
    [month, domain],
  )
  return rows.map(({ line }) => `${line}\n`)
}

/** Rows, dimensions and summaries in one transaction. Returns how many rows it had. */
export const restateUnit = (
  database: Database,
  { definition, marts }: { readonly definition: Definition; readonly marts: readonly Mart[] },
  restated: Restated,
): Promise<number> =>
  withSession(database.pool, async (session) => {
    const lines = await answerOf(database, definition, restated)
    const { month, domain, round } = restated
    const scope = { window: windowAt(month, 'month'), slice: { domain, country: 'us' }, leftOut: [] }
    const slice = new Map(Object.entries(scope.slice).map(([name, value]) => [name, [value]]))
    const rows = sql`(select * from ${dataTable(definition)} t where ${inScope(definition, scope, 't')})`
    await loadOnce(session, {
      ...{ definition, scope, runId: round },
      chunks: [{ copy: Buffer.from(lines.join('')), rows: lines.length }],
      beside: async ({ kysely }, inserted) => {
        if (inserted > 0) await addDimensions(kysely, definition, { slice, rows })
        await refreshSummaries(
          kysely,
          definition,
          { ...scope, units: sql`false` },
          { current: () => marts, reread: async () => marts },
        )
      },
    })
    return lines.length
  })
