// The oracle of money: what the sandbox sold, cell by cell, against the reasons there were to ask.
import type { Books } from '../../src/sandbox/sandbox-server.ts'
import type { WorldDatabase } from './databases.ts'
import { unitName } from './truth.ts'
import type { Pipeline, World } from './world.ts'

type Submission = Books['submissions'][number]

/** Names of the units a submission bought. */
export const cellsOf = ({ asked }: Pick<Submission, 'asked'>): string[] =>
  asked.flatMap(({ vtable, domains, places, dates }) => {
    const pipeline: Pipeline = vtable === null ? 'shopper_category_performance' : 'traffic_and_engagement'
    return dates.flatMap((date) => domains.flatMap((domain) => places.map((place) => unitName(pipeline, date, domain, place))))
  })

/** Made, or still being made: the service gives the credits of a failed report back. */
export const isBought = ({ status }: Submission): boolean => !['internal_error', 'bad_request'].includes(status)

/** How often each cell was bought. */
export const timesBought = (submissions: readonly Submission[]): Map<string, number> => {
  const times = new Map<string, number>()
  for (const submission of submissions.filter(isBought))
    for (const cell of cellsOf(submission)) times.set(cell, (times.get(cell) ?? 0) + 1)
  return times
}

/** The job `j` has an answer, or its answer was seen to be the very one that is loaded. */
export const isUsed = `(j.answer_id is not null or exists (select from etl.loads l where l.job_id = j.job_id and l.outcome = 'unchanged'))`

/** Ids of what was bought that the ledger does not hold the answer of; `lost` are those whose id never reached the program. */
export const abandoned = async (world: World, lost: ReadonlySet<string> = new Set()): Promise<string[]> => {
  const { rows } = await world.database.pool.query<{ report_id: string; landed: boolean }>(
    `select report_id, ${isUsed} as landed from etl.jobs j where report_id is not null`,
  )
  const known = new Map(rows.map(({ report_id, landed }) => [report_id, landed]))
  return world.sandbox
    .books()
    .submissions.filter((submission) => isBought(submission) && !lost.has(submission.id))
    .flatMap((submission) => {
      const { id, downloads, at, body } = submission
      if (known.get(id) === true && downloads > 0) return []
      const where = known.has(id) ? 'known, not landed' : 'unknown to the ledger'
      return [`report ${id} of ${at} is ${where} (${downloads} downloads): ${JSON.stringify(body).slice(0, 300)}`]
    })
}

/** Cells of purchases whose answer was lost on the way, by the ledger: each may be asked for once more, with consent. */
export const uncertainCells = async (pool: WorldDatabase['pool']): Promise<string[]> => {
  const { rows } = await pool.query<{ pipeline: Pipeline; month: string; values: string[]; dimensions: string[] }>(
    `select p.pipeline, p.dimensions, to_char(w, 'YYYY-MM') as month, s."values" from etl.jobs j join etl.pipelines p using (pipeline_id)
     cross join lateral generate_series(j.window_from::timestamp, j.window_to::timestamp - interval '1 day', interval '1 month') w
     join etl.slices s on s.slice_id = any (j.slice_ids) where j.report_state = 'uncertain'`,
  )
  return rows.map(({ pipeline, month, values, dimensions }) => {
    const value = (name: string): string => values[dimensions.indexOf(name)] ?? ''
    return unitName(
      pipeline,
      month,
      value('domain'),
      value(pipeline === 'shopper_category_performance' ? 'category_id' : 'country'),
    )
  })
}

/** Cells bought more often than there were reasons to. */
export const boughtTooOften = (times: ReadonlyMap<string, number>, reasons: (cell: string) => number): string[] =>
  [...times]
    .filter(([cell, count]) => count > reasons(cell))
    .map(([cell, count]) => `${cell}: bought ${count} times, ${reasons(cell)} asked for`)
