// Loads into the large warehouse while dashboards ask, or before they do: a unit's rows come again, one in twenty with other clicks.
import type { Mart } from '../src/core/mart.ts'
import type { Definition } from '../src/core/types.ts'
import { windowAt } from '../src/core/window.ts'
import type { Database } from '../src/db/connect.ts'
import { withSession } from '../src/db/session.ts'
import { addDimensions } from '../src/load/dimensions.ts'
import { mergeAnswer } from '../src/load/merge.ts'
import { oneUnit } from '../src/load/merge-scope.ts'
import { openStaging } from '../src/load/staging.ts'
import { refreshSummaries } from '../src/load/summaries.ts'
import { stagedColumns } from '../src/load/table-columns.ts'

/** Which unit is loaded, and the run's number, by which other rows differ each time. */
export interface Restated {
  readonly month: string
  readonly domain: string
  readonly round: number
}

/** The unit's rows as the service would send them now, as COPY text. */
const answerOf = async (database: Database, definition: Definition, { month, domain, round }: Restated): Promise<string[]> => {
  const cells = stagedColumns(definition).map(({ name }) => {
    const text = name === 'clicks' ? `(clicks + (abs(hashtext(keyword)) % 20 = ${round % 20})::int)` : `"${name}"`
    return `coalesce(${text}::text, '\\N')`
  })
  const { rows } = await database.pool.query<{ line: string }>(
    `select concat_ws(E'\t', ${cells.join(', ')}) as line from data.keywords_v1 where month = $1 and domain = $2 and country = 'us'`,
    [month, domain],
  )
  return rows.map(({ line }) => `${line}\n`)
}

/** As a load does it: staging, then rows, dimensions and summaries in one transaction. Returns how many rows it had. */
export const restateUnit = (
  database: Database,
  { definition, marts }: { readonly definition: Definition; readonly marts: readonly Mart[] },
  restated: Restated,
): Promise<number> =>
  withSession(database.pool, async (session) => {
    const lines = await answerOf(database, definition, restated)
    const { month, domain, round } = restated
    const window = windowAt(month, 'month')
    const scope = oneUnit({ key: `${month}/${domain}`, window, slice: { domain, country: 'us' } }, round)
    const staging = await openStaging(session, definition)
    await staging.write({ copy: Buffer.from(lines.join('')), rows: lines.length })
    await staging.flush()
    await session.kysely.transaction().execute(async (trx) => {
      const inside = { ...session, kysely: trx }
      const request = { definition, scope, runId: round, staging, rows: lines.length, rejectedKeys: [], rejects: 0 }
      const { inserted } = await mergeAnswer(inside, {
        ...request,
        mayEnd: true,
        emptyMonth: null,
        shrink: definition.limits.shrink,
      })
      await addDimensions(trx, definition, scope, inserted)
      await refreshSummaries(trx, definition, scope, { current: () => marts, reread: async () => marts })
    })
    await staging.close()
    return lines.length
  })
