// The files that take long, and in which order files are run: the slowest first, so that no worker is left alone with one at the end.
import type { TestSpecification } from 'vitest/node'
import { BaseSequencer } from 'vitest/node'

/** What `npm test` leaves to continuous integration, which has 15 minutes for everything: slowest first. */
export const long = [
  'test/e2e/prices.test.ts',
  'test/e2e/versions.test.ts',
  'test/e2e/guard.test.ts',
  'test/db/marts-changed.test.ts',
  'test/db/served-words.test.ts',
  'test/e2e/restored-bills.test.ts',
  'test/db/load-oracle.test.ts',
  'test/e2e/database-faults.test.ts',
  'test/e2e/stop-in-time.test.ts',
  'test/e2e/vendor.test.ts',
  'test/e2e/bills-and-budgets.test.ts',
  'test/e2e/refusals.test.ts',
  'test/e2e/analysts.test.ts',
  'test/db/answer-watch.test.ts',
  'test/db/marts-removed.test.ts',
  'test/db/processes.test.ts',
  'test/e2e/said-waits.test.ts',
  'test/e2e/fault-storm.test.ts',
  'test/e2e/check.test.ts',
  'test/db/figures.test.ts',
  'test/e2e/answers.test.ts',
  'test/db/ticker.test.ts',
  'test/e2e/origin.test.ts',
  'test/e2e/examples.test.ts',
  'test/db/guard-oracle.test.ts',
  'test/e2e/key-parameters.test.ts',
  'test/db/figure-questions.test.ts',
  'test/e2e/concurrency.test.ts',
  'test/db/pace.test.ts',
  'test/e2e/one-budget.test.ts',
  'test/db/status-page.test.ts',
  'test/db/planted-dimensions.test.ts',
  'test/e2e/crash.test.ts',
  'test/unit/security/fuzz.test.ts',
  'test/db/load-beside.test.ts',
  'test/db/breaks.test.ts',
  'test/e2e/dialects.test.ts',
  'test/e2e/export-killed.test.ts',
  'test/e2e/hostile-rows.test.ts',
  'test/e2e/bomb.test.ts',
  'test/e2e/clumsy-mistakes.test.ts',
  'test/e2e/webhook-flood.test.ts',
] as const

/** What `npm run test:long` and the nightly workflow run besides: the same promises from other sides, for longer. */
export const nightly = [
  'test/e2e/backup.test.ts',
  'test/e2e/forced-again.test.ts',
  'test/e2e/crash-matrix.test.ts',
  'test/e2e/held-server.test.ts',
  'test/e2e/any-table.test.ts',
  'test/db/plan-sequences.test.ts',
  'test/outsider/takeover.test.ts',
  'test/e2e/echoed-everywhere.test.ts',
  'test/e2e/echoed-key.test.ts',
  'test/e2e/breaks.test.ts',
  'test/db/plan-guard.test.ts',
  'test/outsider/heard.test.ts',
  'test/db/embedded.test.ts',
  'test/e2e/answers-alone.test.ts',
  'test/e2e/bad-input.test.ts',
  'test/e2e/year.test.ts',
  'test/e2e/identity.test.ts',
  'test/e2e/commands.test.ts',
  'test/outsider/pairs.test.ts',
  'test/e2e/refused-alike.test.ts',
  'test/e2e/ledger-size.test.ts',
  'test/db/load-large.test.ts',
  'test/e2e/priced-year.test.ts',
  'test/e2e/servers.test.ts',
  'test/e2e/canary.test.ts',
  'test/e2e/soak.test.ts',
  'test/outsider/reports.test.ts',
  'test/e2e/strict.test.ts',
  'test/outsider/nights.test.ts',
  'test/outsider/clocks.test.ts',
  'test/outsider/runbook.test.ts',
  'test/e2e/chargeback.test.ts',
  'test/e2e/long-backfill.test.ts',
  'test/browser/status-page.test.ts',
  'test/e2e/second-api.test.ts',
  'test/db/slots.test.ts',
  'test/e2e/filters-for-each.test.ts',
  'test/e2e/serving.test.ts',
  'test/e2e/whole-reports.test.ts',
  'test/e2e/semantic.test.ts',
  'test/e2e/new-dataset.test.ts',
  'test/e2e/locks.test.ts',
  'test/e2e/formats.test.ts',
  'test/e2e/counted-reports.test.ts',
  'test/e2e/landing-bucket.test.ts',
  'test/outsider/runs.test.ts',
  'test/e2e/stopped.test.ts',
  'test/e2e/releases.test.ts',
  'test/e2e/command-ends.test.ts',
  'test/e2e/many-domains.test.ts',
  'test/e2e/alarms.test.ts',
  'test/e2e/guard-word.test.ts',
  'test/e2e/notifications.test.ts',
  'test/e2e/method-changes.test.ts',
  'test/e2e/dialect-switches.test.ts',
  'test/e2e/landed-figures.test.ts',
] as const

/** Unit tests that read megabytes, try thousands of cases or wait for seconds: `npm test` runs them, `npm run check` before each commit does not. */
export const volume = [
  'test/unit/extract/rate.test.ts',
  'test/unit/sandbox/report-text.test.ts',
  'test/unit/sandbox/keyword-data.test.ts',
  'test/unit/sources/table-limits.test.ts',
  'test/unit/extract/http-bodies.test.ts',
  'test/unit/parse/csv.test.ts',
  'test/contract/sources.test.ts',
] as const

/** Of what `npm test` runs, the files that must not come last. */
const early = [
  'test/e2e/promises.test.ts',
  'test/db/connect.test.ts',
  'test/db/plan-jobs.test.ts',
  'test/e2e/named-files.test.ts',
  'test/e2e/terminal.test.ts',
  'test/db/plan-nights.test.ts',
  ...volume,
]

/** In the order of the lists; what is not in it comes after it, as Vitest sorts it. */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const slowest: readonly string[] = [...nightly, ...long, ...early]
    const place = ({ moduleId }: TestSpecification): number => {
      const at = slowest.findIndex((file) => moduleId.endsWith(`/${file}`))
      return at === -1 ? slowest.length : at
    }
    return (await super.sort(files)).sort((a, b) => place(a) - place(b))
  }
}
