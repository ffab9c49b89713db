// What a run has loaded although a test of the definition warns: one cause a pipeline and run, with the figures; restatements apart.
import { sql } from 'kysely'
import type { Cause } from '../core/alarm.ts'
import { changeOf, shownNumber } from '../core/data-test.ts'
import type { Counts, Flags, Maybe, Row, Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** So long it is among the causes, so that each receiver hears of it once. */
const told = '2 days'

/** Failures of one test in one run. */
type TestRow = Row<'etl.failed_tests', 'pipeline' | 'test'> &
  Flags<'restated'> &
  Counts<'run_id' | 'units'> &
  Texts<'first' | 'last' | 'example'> &
  Maybe<Counts<'found' | 'expected'>>

/** Of runs that are over: a message sent in the middle of one would have half the figures. */
export const testCauses = async (db: Db): Promise<readonly Cause[]> => {
  const { rows } = await sql<TestRow>`
    select f.kind = 'restated' as restated, f.pipeline, f.run_id, f.test, count(*) as units, min(f.window_from)::text as first,
      max(f.window_from)::text as last, sum(t.found) as found, sum(t.expected) as expected,
      (array_agg(etl.unit_key(p.pipeline, p.version, f.window_from, p.window_every, p.dimensions, s."values") || ': ' || f.message
        order by abs(t.found - t.expected) / nullif(abs(t.expected), 0) desc nulls last, f.unit_id))[1] as example
    from etl.failed_tests f join etl.runs r on r.run_id = f.run_id join etl.pipelines p on p.pipeline_id = f.pipeline_id
      join etl.slices s on s.slice_id = f.slice_id
      cross join lateral (select case when f.kind = 'restated' then f.found::numeric end as found,
        case when f.kind = 'restated' then f.expected::numeric end as expected) t
    where f.tested_at > clock_timestamp() - ${told}::interval and f.outcome = 'warned' and r.state <> 'running'
    group by 1, 2, 3, 4 order by 1, 2, 3, 4`.execute(db)
  const groups = Map.groupBy(rows, ({ restated, pipeline, run_id }) => `${restated ? 'restated' : 'test'}/${pipeline}/${run_id}`)
  return [...groups].map(([cause, tests]) => causeOf(cause, tests))
}

const causeOf = (cause: string, tests: readonly TestRow[]): Cause => {
  const [largest] = tests.toSorted((left, right) => Number(right.units) - Number(left.units))
  const { restated = false, pipeline = '', run_id = '' } = largest ?? {}
  const first = tests.map((row) => row.first).toSorted()[0] ?? ''
  const last =
    tests
      .map((row) => row.last)
      .toSorted()
      .at(-1) ?? ''
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
  const units = `${row.test}: ${row.units} ${row.units === '1' ? 'unit' : 'units'}`
  if (!row.restated) return `${units}.`
  return `${units}, ${shownNumber(row.expected)} became ${shownNumber(row.found)}${changeOf(row.found, row.expected)}.`
}

const detailOf = ({ test, units, found, expected }: TestRow) => ({
  test,
  units: Number(units),
  ...(found === null ? {} : { found, expected }),
})
