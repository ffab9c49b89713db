// What the ledger says is wrong now: failed and held units, rejected rows, fields other than defined, what waits for approval; and whether a window that
// should be loaded by now is, and if not, why.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import type { Cause } from '../core/alarm.ts'
import { counted } from '../core/counted.ts'
import { changeOf, shownNumber } from '../core/data-test.ts'
import type { Definition, IsoDate } from '../core/types.ts'
import type { Db, ListReadsTable, PipelinesTable } from '../db/tables.ts'
import { type Counts, type Flags, type Maybe, type Numbers, query, queryOne, type Row, type Texts } from '../db/typed-row.ts'
import { unpricedOf } from './approvals.ts'
import { isSamePipeline } from './pipelines.ts'
import { isOpenRecord } from './quarantine.ts'
import { isFormer, isSucceeded } from './slices.ts'

/** How many units a notification remembers: a cause with more units ends when these are loaded and no other is in trouble. */
const mostRemembered = 1_000

// The newest load of a unit's answer; where it differs from the remembered one, the unit was loaded since, or found unchanged.
const loadOf = (unit: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`coalesce((select max(l.load_id) from etl.loads l where l.answer_id = ${unit}.answer_id and l.window_from = ${unit}.window_from), 0)`

// Units of reported causes that are neither in trouble now nor loaded since. A retry in progress does not end a cause, nor does a cancel, after which
// the ledger may have no row for the unit: so units are remembered by pipeline, window and slice.
const remembered = sql`
  select n.kind, p.pipeline, s.pipeline_id, r.at[2]::date as window_from, s.slice_id, u.error_code, u.error_message
  from etl.notifications n
    cross join lateral (select string_to_array(x.place, '/') as at, x.load_id::bigint as load_id
      from jsonb_each_text(n.details -> 'units') as x (place, load_id)) r
    join etl.slices s on s.slice_id = r.at[3]::integer join etl.pipelines p on p.pipeline_id = s.pipeline_id
    left join etl.unit_list u on u.pipeline_id = s.pipeline_id and u.window_from = r.at[2]::date and u.slice_id = s.slice_id
  where n.resolved_at is null and n.kind in ('failure', 'held') and (coalesce(u.state, 'planned') not in ('held', 'failed') or u.error_code = 'CANCELLED')
    and (s.wanted_until is null or u.job_id is not null) and ${loadOf(sql`u`)} = r.load_id`

const troubled = sql`
  select case u.state when 'failed' then 'failure' else 'held' end as kind, p.pipeline, u.pipeline_id, u.window_from, u.slice_id, u.error_code,
    u.error_message
  from etl.troubled_units u join etl.pipelines p on p.pipeline_id = u.pipeline_id
  -- Cancelled by a person, who needs no alarm about it.
  where u.error_code is distinct from 'CANCELLED' and not ${isSucceeded}`

/** Versions `p` of pipelines with the drift that their newest load has, but for those that readers see a later one of. */
export const driftNow = sql`(select * from (select distinct on (pipeline, version) * from etl.last_loads order by pipeline, version, loaded_at desc) p
  where p.drift is not null and not ${isFormer}) p`

/** `code`: the most frequent one; `keeping`: of the units remembered, those that still have the rows of an earlier answer. */
type CauseRow = Row<'etl.pipelines', 'pipeline'> &
  Numbers<'n'> &
  Maybe<Texts<'example' | 'code' | 'first' | 'last'> & Numbers<'keeping'>> & {
    readonly kind: 'failure' | 'held' | 'quarantine' | 'drift'
    readonly units: unknown
  }

/** What the ledger says is wrong now: failed and held units, rows in quarantine, drift, what waits for approval, lists, tests. The caller adds quota and lateness. */
export const causesInLedger = async (db: Db): Promise<readonly Cause[]> => [
  ...(await troubles(db)),
  ...(await approvalCauses(db)),
  ...(await listCauses(db)),
  ...(await testCauses(db)),
]

/** One cause for all of a pipeline that waits for approval; a new cause whenever that changes. */
const approvalCauses = async (db: Db): Promise<readonly Cause[]> => {
  const rows = await db
    .selectFrom('etl.approvals')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'etl.approvals.pipeline_id')
    .select(['approval_id', 'p.pipeline', 'units', 'reports', 'credits', 'allowed'])
    .select((eb) => eb.exists(unpricedOf(eb)).as('unpriced'))
    .where('state', '=', 'waiting')
    .where('units', '>', '0')
    .orderBy('approval_id')
    .execute()
  return rows.map(({ approval_id, pipeline, units, reports, credits, allowed, unpriced }) => ({
    cause: `approval/${pipeline}/${approval_id}`,
    kind: 'approval',
    pipeline,
    message:
      `${pipeline}: ${counted(Number(units), 'unit')} (${reports === 0 ? '' : `${counted(Number(reports), 'report')}, `}${unpriced === true ? 'price not known' : `about ${counted(Number(credits), 'credit')}`}) ${Number(units) === 1 ? 'needs' : 'need'} approval${allowed === null ? '' : `; the nightly limit was ${allowed}`}. ` +
      `\`millrace plan ${pipeline}\` shows them, \`millrace approve ${pipeline}\` allows them.`,
    changed: 'They exceed the nightly limit. The usual part of the night runs.',
    nextStep: `\`millrace approve ${pipeline}\` allows them and the next run buys them; until then nothing is spent on them.`,
    details: { approval_id: Number(approval_id), units: Number(units), reports, credits: Number(credits) },
  }))
}

const troubles = async (db: Db): Promise<readonly Cause[]> => {
  const rows = await query<CauseRow>(db)`
    with c as materialized (
      select x.*, row_number() over (partition by x.kind, x.pipeline order by x.pipeline_id, x.window_from, x.slice_id) as place
      from (${troubled} union all ${remembered}) x
    ), codes as materialized (
      select kind, pipeline, error_code, count(*) as n, min(error_message) as example from c where error_message is not null group by 1, 2, 3
    )
    select c.kind, c.pipeline, count(*)::float8 as n, k.example, k.error_code as code, min(c.window_from)::text as first, max(c.window_from)::text as last,
      count(u.answer_id)::float8 as keeping,
      jsonb_object_agg(concat_ws('/', c.pipeline_id, c.window_from, c.slice_id), ${loadOf(sql`u`)}) filter (where c.place <= ${mostRemembered}) as units
    from c left join etl.units u on c.place <= ${mostRemembered} and u.pipeline_id = c.pipeline_id and u.window_from = c.window_from
        and u.slice_id = c.slice_id
      left join lateral (select k.example, k.error_code from codes k where k.kind = c.kind and k.pipeline = c.pipeline
        order by k.n desc, k.error_code limit 1) k on true
    group by 1, 2, 4, 5
    union all select 'quarantine', q.pipeline, count(*)::float8, min(q.reason), null, null, null, null, null
      from etl.quarantine q where ${isOpenRecord} group by 2
    union all select 'drift', p.pipeline, 1, min(p.drift::text), null, null, null, null, null from ${driftNow} group by 2`
  return rows.map((row) => ({
    cause: `${row.kind}/${row.pipeline}`,
    kind: row.kind,
    pipeline: row.pipeline,
    grouping: row.code,
    ...wordsOf(row),
    details: { count: row.n, example: row.example, code: row.code, ...(row.units === null ? {} : { units: row.units }) },
  }))
}

type Words = Pick<Cause, 'message' | 'changed' | 'nextStep'>

const wordsOf = (row: CauseRow): Words => {
  const { kind, pipeline, n, example } = row
  const why = example === null ? '' : ` For example: ${example}`
  const units = `${counted(n, 'unit')} of ${pipeline}`
  if (kind === 'failure')
    return {
      message: `${units} failed; the next run tries ${n === 1 ? 'it' : 'them'} again, or, before window.from, the same backfill.${why}`,
      changed: `${spanOf(row)}${keptOf(row)}`,
      nextStep: `\`millrace status ${pipeline}\` lists them; \`millrace run ${pipeline}\` tries again at once; months before \`window.from\` need the same \`millrace backfill\` again.`,
    }
  if (kind === 'held')
    return {
      message: `${units} ${n === 1 ? 'waits' : 'wait'} for a person (millrace status ${pipeline}).${why}`,
      changed: `${spanOf(row)}${keptOf(row)}`,
      nextStep: `Check the reason: \`millrace status ${pipeline}\`. \`millrace release UNIT\` loads a held answer as it is; \`millrace reports list\` shows purchases whose answer was lost.`,
    }
  if (kind === 'quarantine')
    return {
      message: `${counted(n, 'row')} of ${pipeline} ${n === 1 ? 'is' : 'are'} in quarantine (millrace quarantine list ${pipeline}).${why}`,
      changed: 'All other rows of these answers are loaded.',
      nextStep: `Correct the definition, then \`millrace quarantine retry ${pipeline}\`; it asks the service for nothing.`,
    }
  return {
    message: `The answers for ${pipeline} have other fields than its definition says: ${example ?? ''}`,
    changed: 'The fields of the definition are loaded as before; the others are left out.',
    nextStep:
      'Add the fields to the definition, or leave them out; then `millrace replay` fills the added fields from the landed answers.',
  }
}

const spanOf = ({ first, last }: CauseRow): string => {
  if (first === null || last === null) return ''
  return first === last ? `Window ${first}. ` : `Windows from ${first} to ${last}. `
}

/** Readers see the rows of the answer before, where there was one. */
const keptOf = ({ keeping, n }: CauseRow): string => {
  if (keeping === null || n > mostRemembered) return ''
  if (keeping === 0) return 'None of them was ever loaded.'
  return keeping === n ? 'Readers still see their earlier rows.' : `Readers still see the earlier rows of ${keeping}.`
}

type ListTrouble = Pick<PipelinesTable, 'pipeline'> &
  Pick<Selectable<ListReadsTable>, 'dimension' | 'message'> & {
    /** null: its query failed. */
    readonly list_id: number | null
  }

const listCauses = async (db: Db): Promise<Cause[]> => {
  const rows = await query<ListTrouble>(db)`
    with read as (
      select distinct on (r.pipeline_id, r.dimension) r.* from etl.list_reads r order by r.pipeline_id, r.dimension, r.run_id desc
    )
    select p.pipeline, r.dimension, r.message, (select l.list_id::float8 from etl.lists l where l.pipeline_id = r.pipeline_id
        and l.dimension = r.dimension and l.state = 'held') as list_id
    from read r join etl.pipelines p using (pipeline_id)
    where r.outcome = 'failed' or r.outcome = 'held' and exists (select from etl.lists l where l.pipeline_id = r.pipeline_id
      and l.dimension = r.dimension and l.state = 'held') order by 1, 2`
  return rows.map(({ pipeline, dimension, list_id, message }) => ({
    cause: `list/${pipeline}/${dimension}/${list_id ?? 'failed'}`,
    kind: 'list',
    pipeline,
    message: `${pipeline}: the list of ${dimension}: ${message ?? ''}`,
    changed: list_id === null ? 'Its query failed.' : 'It is empty or much shorter than before.',
    nextStep:
      list_id === null
        ? 'Correct the query, or give the reader what it needs; the next run reads it again.'
        : `If the list is right, \`millrace approve ${pipeline}\` accepts it; else correct what its query reads.`,
    details: { dimension, list_id },
  }))
}

/** How long a failed test stays among the causes, so that each receiver hears of it once. */
const told = '2 days'

type TestRow = Row<'etl.failed_tests', 'pipeline' | 'test'> &
  Flags<'restated'> &
  Counts<'run_id' | 'units'> &
  Texts<'first' | 'last' | 'example'> &
  Maybe<Counts<'found' | 'expected'>>

/** Tests of runs that have ended: a message in the middle of a run would have half the figures. */
const testCauses = async (db: Db): Promise<readonly Cause[]> => {
  const rows = await query<TestRow>(db)`
    select f.kind = 'restated' as restated, f.pipeline, f.run_id, f.test, count(*) as units, min(f.window_from)::text as first,
      max(f.window_from)::text as last, sum(t.found) as found, sum(t.expected) as expected,
      (array_agg(etl.unit_key(p.pipeline, p.version, f.window_from, p.window_every, p.dimensions, s."values") || ': ' || f.message
        order by abs(t.found - t.expected) / nullif(abs(t.expected), 0) desc nulls last, f.unit_id))[1] as example
    from etl.failed_tests f join etl.runs r on r.run_id = f.run_id join etl.pipelines p on p.pipeline_id = f.pipeline_id
      join etl.slices s on s.slice_id = f.slice_id
      cross join lateral (select case when f.kind = 'restated' then f.found::numeric end as found,
        case when f.kind = 'restated' then f.expected::numeric end as expected) t
    where f.tested_at > clock_timestamp() - ${told}::interval and f.outcome = 'warned' and r.state <> 'running'
    group by 1, 2, 3, 4 order by 1, 2, 3, 4`
  const groups = Map.groupBy(rows, ({ restated, pipeline, run_id }) => `${restated ? 'restated' : 'test'}/${pipeline}/${run_id}`)
  return [...groups].map(([cause, tests]) => causeOf(cause, tests))
}

const causeOf = (cause: string, tests: readonly TestRow[]): Cause => {
  const [largest] = tests.toSorted((left, right) => Number(right.units) - Number(left.units))
  const { restated = false, pipeline = '', run_id = '' } = largest ?? {}
  const days = tests.flatMap((row) => [row.first, row.last]).toSorted()
  const [first = '', last = ''] = [days[0], days.at(-1)]
  return {
    cause,
    kind: restated ? 'restated' : 'test',
    pipeline,
    grouping: `run ${run_id}`,
    message: `${pipeline}: ${restated ? 'restated beyond what is allowed' : 'loaded, but tests fail'}. ${tests.map(lineOf).join(' ')} For example ${largest?.example ?? ''}`,
    changed: `${first === last ? `Window ${first}.` : `Windows from ${first} to ${last}.`} Run ${run_id} loaded ${restated ? 'the new values; the former ones are in the history.' : 'them.'}`,
    nextStep: `\`select * from bi.test_failures where pipeline = '${pipeline}'\` lists them; \`on_failure: hold\` in the definition has such answers wait for a person.`,
    details: { run_id: Number(run_id), first, last, tests: tests.map(detailOf) },
  }
}

const lineOf = (row: TestRow): string => {
  const units = `${row.test}: ${counted(Number(row.units), 'unit')}`
  if (!row.restated) return `${units}.`
  return `${units}, ${shownNumber(row.expected)} became ${shownNumber(row.found)}${changeOf(row.found, row.expected)}.`
}

const detailOf = ({ test, units, found, expected }: TestRow) => ({
  test,
  units: Number(units),
  ...(found === null ? {} : { found, expected }),
})

/**
 * The expected units of one window, without those that wait for approval or, once approved, for their turn. Of the missing ones: `notPublished` by the service,
 * `inTrouble` failed or held, `overBudget` waiting for a budget. `lastRunAt`: start of the last run that had jobs of the pipeline.
 */
export type DueWindow = Numbers<'units' | 'missing' | 'notPublished' | 'inTrouble' | 'overBudget'> & Maybe<Texts<'lastRunAt'>>

/** A value that is new in a list is expected only where one of this many months before the window has it loaded. */
const windowsBefore = 3

/** null: the pipeline was never planned, so nothing of it is loaded. A window that is closed, or that a run is loading, has nothing missing. */
export const dueWindow = async (db: Db, definition: Definition, windowFrom: IsoDate): Promise<DueWindow | null> => {
  const [ours] = await query<Row<'etl.pipelines', 'pipeline_id'> & Flags<'is_closed'>>(db)`
    select p.pipeline_id, coalesce(w.closed_generation >= p.generation, false) as is_closed
    from etl.pipelines p left join etl.windows w on w.pipeline_id = p.pipeline_id and w.window_from = ${windowFrom}::date
    where ${isSamePipeline(definition)}`
  if (ours === undefined) return null
  return ours.is_closed || (await isAtWork(db, definition.pipeline)) ? whole : countMissing(db, ours.pipeline_id, windowFrom)
}

const loading = sql`r.command in ('run', 'schedule', 'backfill')`

/** A run is loading it, so no message is due yet. A run whose process died counts until a live process closes it. */
const isAtWork = async (db: Db, pipeline: string): Promise<boolean> => {
  const rows = await query(db)`
    select r.run_id from etl.runs r join etl.processes p on p.process_id = r.process_id and p.ended_at is null
    where r.state = 'running' and ${loading} and (r.arguments ->> 'pipeline' = ${pipeline} or r.arguments -> 'pipelines' = '[]'::jsonb
      or r.arguments -> 'pipelines' ? ${pipeline}) limit 1`
  return rows.length > 0
}

const whole: DueWindow = { units: 0, missing: 0, notPublished: 0, inTrouble: 0, overBudget: 0, lastRunAt: null }

const countMissing = (db: Db, pipelineId: number, windowFrom: IsoDate): Promise<DueWindow> =>
  queryOne<DueWindow>(db)`
    with before as materialized (
      select u.slice_id from etl.units u where u.pipeline_id = ${pipelineId}
        and u.window_from >= (${windowFrom}::date - ${windowsBefore} * interval '1 month')::date and u.window_from < ${windowFrom}::date
        and u.answer_id is not null group by 1
    ), expected as (
      select s.slice_id, u.answer_id, j.state, j.error_code, j.guard, j.ask_number, j.approval_id
      from etl.slices s
        left join etl.units u on u.pipeline_id = s.pipeline_id and u.window_from = ${windowFrom}::date and u.slice_id = s.slice_id
        left join etl.jobs j on j.job_id = u.job_id
      where s.pipeline_id = ${pipelineId} and s.wanted_until is null
        and (s.wanted_since <= 1 or u.answer_id is not null or exists (select from before b where b.slice_id = s.slice_id))
    )
    select count(*)::float8 as units,
      count(*) filter (where answer_id is null)::float8 as missing,
      count(*) filter (where answer_id is null and error_code = 'NOT_PUBLISHED')::float8 as "notPublished",
      count(*) filter (where answer_id is null and state in ('held', 'failed'))::float8 as "inTrouble",
      count(*) filter (where answer_id is null and state = 'open' and error_code = 'QUOTA_EXHAUSTED')::float8 as "overBudget",
      (select r.started_at from etl.runs r where ${loading} and exists (select from etl.run_jobs w join etl.jobs j using (job_id)
        where w.run_id = r.run_id and j.pipeline_id = ${pipelineId}) order by r.run_id desc limit 1) as "lastRunAt"
    from expected where answer_id is not null or ask_number is not null
      or not (guard is not distinct from 'needs approval' and state = 'held' or approval_id is not null)`
