// Which files are mutated, and the tests that must notice; the quickest first.

export interface Target {
  readonly files: readonly string[]
  readonly tests: readonly string[]
}

export const targets: readonly Target[] = [
  {
    files: ['src/ledger/claim.ts', 'src/ledger/claim-cursor.ts', 'src/ledger/claim-fence.ts', 'src/ledger/replace-job.ts'],
    tests: [
      'test/db/claim.test.ts',
      'test/db/end-claim.test.ts',
      'test/db/processes.test.ts',
      'test/db/ledger-runs.test.ts',
      'test/db/ledger-reports.test.ts',
    ],
  },
  {
    files: [
      'src/ledger/processes.ts',
      'src/ledger/runs.ts',
      'src/ledger/wait-list.ts',
      'src/ledger/serving.ts',
      'src/ledger/cancel-request.ts',
      'src/ledger/requests.ts',
    ],
    tests: [
      'test/db/processes.test.ts',
      'test/db/ledger-runs.test.ts',
      'test/db/claim.test.ts',
      'test/db/ledger-reports.test.ts',
      'test/db/slots.test.ts',
    ],
  },
  {
    files: ['src/ledger/report-memo.ts', 'src/ledger/budget.ts'],
    tests: ['test/db/ledger-reports.test.ts'],
  },
  {
    files: ['src/ledger/candidates.ts', 'src/ledger/job-decision.ts'],
    tests: [
      'test/db/plan-decisions.test.ts',
      'test/db/plan-run.test.ts',
      'test/db/plan-jobs.test.ts',
      'test/db/plan-lists.test.ts',
      'test/db/plan-nights.test.ts',
      'test/db/plan-guard.test.ts',
      'test/db/plan-sequences.test.ts',
    ],
  },
  {
    files: [
      'src/ledger/register-jobs.ts',
      'src/ledger/join-jobs.ts',
      'src/ledger/slices.ts',
      'src/ledger/pipelines.ts',
      'src/ledger/reuse-answers.ts',
    ],
    tests: [
      'test/db/plan-jobs.test.ts',
      'test/db/plan-run.test.ts',
      'test/db/plan-lists.test.ts',
      'test/db/plan-nights.test.ts',
      'test/db/plan-guard.test.ts',
      'test/db/plan-barrier.test.ts',
      'test/db/plan-sequences.test.ts',
    ],
  },
  {
    files: ['src/ledger/windows.ts'],
    tests: [
      'test/db/plan-windows.test.ts',
      'test/db/plan-nights.test.ts',
      'test/db/plan-run.test.ts',
      'test/db/plan-sequences.test.ts',
    ],
  },
  { files: ['src/plan/pack.ts'], tests: ['test/unit/plan/pack.test.ts', 'test/db/plan-jobs.test.ts'] },
  { files: ['src/ledger/quarantine.ts'], tests: ['test/db/ledger-quarantine.test.ts', 'test/db/load-windows.test.ts'] },
  {
    files: ['src/ledger/release-unit.ts', 'src/ledger/register-replay.ts'],
    tests: ['test/db/actions.test.ts', 'test/db/replay.test.ts'],
  },
  {
    files: [
      'src/ledger/job-units.ts',
      'src/ledger/loads.ts',
      'src/ledger/answers.ts',
      'src/run/load-answer.ts',
      'src/run/load-units.ts',
      'src/run/hold-units.ts',
      'src/run/judge.ts',
    ],
    tests: [
      'test/db/load-windows.test.ts',
      'test/db/load-unit.test.ts',
      'test/db/load-nasty.test.ts',
      'test/db/load-oracle.test.ts',
    ],
  },
  {
    files: ['src/load/difference.ts', 'src/load/duplicates.ts', 'src/load/partition.ts', 'src/load/table-columns.ts'],
    tests: ['test/db/load.test.ts', 'test/db/load-windows.test.ts', 'test/db/load-nasty.test.ts', 'test/db/load-oracle.test.ts'],
  },
  {
    files: ['src/parse/unit-mark.ts', 'src/run/rows-of-job.ts'],
    tests: ['test/unit/parse/unit-mark.test.ts', 'test/db/load-windows.test.ts'],
  },
  {
    files: ['src/extract/report.ts', 'src/extract/report-submit.ts', 'src/extract/report-api.ts'],
    tests: ['test/unit/extract/report.test.ts'],
  },
  {
    files: ['src/run/settle.ts'],
    tests: [
      'test/unit/run/settle.test.ts',
      'test/unit/run/settle-job.test.ts',
      'test/unit/run/split-job.test.ts',
      'test/db/end-claim.test.ts',
    ],
  },
]
