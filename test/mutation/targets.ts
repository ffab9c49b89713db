// Which files are mutated, and the tests that must notice; the quickest first.

export interface Target {
  readonly files: readonly string[]
  readonly tests: readonly string[]
}

export const targets: readonly Target[] = [
  {
    files: [
      'src/ledger/units.ts',
      'src/ledger/loads.ts',
      'src/ledger/held.ts',
      'src/ledger/register.ts',
      'src/ledger/actions.ts',
    ],
    tests: ['test/db/ledger-units.test.ts', 'test/db/ledger-register.test.ts'],
  },
  {
    files: ['src/ledger/reports.ts', 'src/db/ledger/budget.ts', 'src/db/ledger/estimates.ts'],
    tests: ['test/db/ledger-reports.test.ts', 'test/db/ledger-units.test.ts'],
  },
  {
    files: ['src/ledger/runs.ts', 'src/db/ledger/requests.ts'],
    tests: ['test/db/ledger-runs.test.ts', 'test/db/ledger-units.test.ts'],
  },
  { files: ['src/ledger/quarantine.ts'], tests: ['test/db/ledger-quarantine.test.ts'] },
  {
    files: ['src/load/merge.ts', 'src/load/merge-context.ts', 'src/load/merge-statements.ts'],
    tests: ['test/db/merge-statements.test.ts', 'test/db/load.test.ts', 'test/db/merge-guards.test.ts'],
  },
  { files: ['src/load/rows-at-once.ts', 'src/pipeline/load-at-once.ts'], tests: ['test/db/load-at-once.test.ts'] },
  { files: ['src/load/same-rows.ts'], tests: ['test/db/same-rows.test.ts'] },
  {
    files: ['src/extract/report.ts', 'src/extract/report-submit.ts', 'src/extract/report-status.ts'],
    tests: ['test/unit/extract/report.test.ts'],
  },
  {
    files: ['src/pipeline/settle.ts', 'src/run/settle-unit.ts'],
    tests: ['test/unit/run/settle.test.ts', 'test/db/settle-unit.test.ts'],
  },
]
