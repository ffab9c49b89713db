// The tests of definitions: what each expects, how many units fail it, and the newest of them.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { count, moment } from '../format.ts'
import { badge, type Html, page, table, unitLink } from '../layout.ts'
import { type FailedTestLine, failedTests, testLines } from '../reads/read-data-tests.ts'

const shown = 500

/** Units with the tests they fail. */
export const failedTestTable = (caption: string, rows: readonly FailedTestLine[]): Html =>
  table(
    caption,
    ['Unit', 'Test', 'What became of it', 'Expected and found', 'Tested'],
    rows.map((row) => [unitLink(row.unit_id, row.unit_key), row.test, badge(row.outcome), row.message, moment(row.tested_at)]),
    'No unit fails a test.',
  )

/** Every test of every pipeline. */
export const testsPage = async (context: WebContext): Promise<Html> => {
  const [tests, failed] = await Promise.all([testLines(context.kysely), failedTests(context.kysely, shown)])
  const body = html`${table(
    'Tests of the definitions',
    ['Pipeline', 'Test', 'Expects that', 'Otherwise', 'Units held', 'Warned', 'Released', 'Last failed'],
    tests.map((row) => [
      row.pipeline,
      row.test,
      row.expects,
      row.on_failure,
      count(row.held),
      count(row.warned),
      count(row.released),
      moment(row.tested_at),
    ]),
    'No definition has tests. `tests:` in a definition says what its rows must be.',
  )}
${failedTestTable(failed.length === shown ? `The newest ${count(shown)} failures` : 'Units that fail a test', failed)}`
  return page({ title: 'Tests', place: '/tests', warehouse: context.warehouse, body })
}
