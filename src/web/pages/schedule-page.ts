// When each pipeline runs next, and what the service changed later: loads that restated rows, and answers whose shape differs from the definition.
import { html } from 'hono/html'
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import type { WebContext } from '../context.ts'
import { count, coverageAddress, dayBefore, timeTag, unitsAddress } from '../format.ts'
import { type Html, page, table, unitLink } from '../layout.ts'
import { boxColumns, boxKey, asNumbers, asNumbersOrNull } from '../reads/shared-columns.ts'

const daysShown = 60

/** The unit, or the month's units where the answer was for several. */
const restated = (load: Restatement): Html =>
  load.unit_id === null
    ? html`<a href="${unitsAddress(load.pipeline, load.window_from.slice(0, 7))}">${boxKey(load)}</a>`
    : unitLink(load.unit_id, boxKey(load))

export const schedulePage = async (context: WebContext): Promise<Html> => {
  const since = dayBefore(context.clock.now(), daysShown)
  const [changed, drifts] = await Promise.all([restatements(context.kysely, since, 100), lastDrifts(context.kysely, since)])
  const drifted = 'Schema drift: fields the service sends or lacks against the definition'
  const body = html`${table('The next five runs', context.nextTicks(5), 'No pipeline has a schedule.', {
    Pipeline: ({ pipeline }) => html`<a href="${coverageAddress(pipeline)}">${pipeline}</a>`,
    'Time zone': ({ timeZone }) => timeZone,
    'Next runs': ({ at }) =>
      html`${at.map((ms, place) => html`${place === 0 ? '' : ', '}${timeTag(new Date(ms).toISOString())}`)}`,
  })}
${table(`Restatements of the last ${daysShown} days, the largest first`, changed, 'The service restated nothing.', {
  When: ({ loaded_at }) => timeTag(loaded_at),
  What: restated,
  'Rows changed': ({ rows_updated }) => count(rows_updated),
  'Rows ended': ({ rows_ended }) => count(rows_ended),
  'Rows new': ({ rows_inserted }) => count(rows_inserted),
  'Share changed': ({ rows_read, rows_updated, rows_ended }) =>
    rows_read === 0 ? '–' : `${Math.round(((rows_updated + rows_ended) / rows_read) * 100)} %`,
})}
${table(drifted, drifts, 'All answers match their definitions.', {
  Pipeline: ({ pipeline }) => pipeline,
  Seen: ({ loaded_at }) => timeTag(loaded_at),
  'Answer for': boxKey,
  What: ({ drift }) => html`<code>${JSON.stringify(drift)}</code>`,
})}`
  return page({ title: 'Schedule', place: '/schedule', warehouse: context.warehouse, body })
}

// One load of an answer into a window, with the answer's slices: the columns that `boxColumns` needs as `b`.
const loadBoxes = (db: Db) =>
  db
    .selectFrom('etl.loads as l')
    .innerJoin('etl.answers as a', 'a.answer_id', 'l.answer_id')
    .innerJoin('etl.pipelines as q', 'q.pipeline_id', 'l.pipeline_id')
    .select(['l.load_id', 'l.pipeline_id', 'l.window_from', 'a.slice_ids', 'l.loaded_at', 'l.drift'])
    .select(['l.rows_updated', 'l.rows_ended', 'l.rows_inserted', 'l.rows_read'])
    .select(sql<string>`etl.window_end(l.window_from, q.window_every)`.as('window_to'))

// The slice of the only unit, where the answer was for one unit.
const onlyUnit = sql`b.slice_ids[1]`

/** Loads that changed or ended rows of an earlier load, the largest first. @param fromDay the first one, `YYYY-MM-DD` */
const restatements = (db: Db, fromDay: string, limit: number) =>
  db
    .selectFrom(
      loadBoxes(db)
        .where(sql<boolean>`l.rows_updated + l.rows_ended > 0`)
        .where('l.loaded_at', '>=', fromDay)
        .orderBy(sql`l.rows_updated + l.rows_ended`, 'desc')
        .orderBy('l.load_id', 'desc')
        .limit(limit)
        .as('b'),
    )
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .leftJoin('etl.units as u', (join) =>
      join
        .onRef('u.pipeline_id', '=', 'b.pipeline_id')
        .onRef('u.window_from', '=', 'b.window_from')
        .on('u.slice_id', '=', sql<number>`case when cardinality(b.slice_ids) = 1 then ${onlyUnit} end`),
    )
    .select(boxColumns)
    // `unit_id` is null where the answer was for several units.
    .select([
      ...asNumbersOrNull('u', 'unit_id'),
      'b.loaded_at',
      ...asNumbers('b', 'rows_read', 'rows_updated', 'rows_ended', 'rows_inserted'),
    ])
    .orderBy(sql`b.rows_updated + b.rows_ended`, 'desc')
    .orderBy('b.load_id', 'desc')
    .execute()

type Restatement = Awaited<ReturnType<typeof restatements>>[number]

/** One line a pipeline and version: the last load since `fromDay` whose answer had another shape. */
const lastDrifts = (db: Db, fromDay: string) =>
  db
    .selectFrom('etl.pipelines as p')
    .innerJoinLateral(
      loadBoxes(db)
        .whereRef('l.pipeline_id', '=', sql<number>`p.pipeline_id`)
        .where('l.drift', 'is not', null)
        .where('l.loaded_at', '>=', fromDay)
        .orderBy('l.loaded_at', 'desc')
        .limit(1)
        .as('b'),
      (join) => join.onTrue(),
    )
    .select(boxColumns)
    .select(['b.loaded_at', 'b.drift'])
    .orderBy('p.pipeline')
    .execute()
