// Which files are mutated, and the tests that must notice; the quickest first.

export interface Target {
  readonly files: readonly string[]
  readonly tests: readonly string[]
}

export const targets: readonly Target[] = [
  {
    files: [
      'src/ledger/claim.ts',
      'src/ledger/claim-cursor.ts',
      'src/ledger/hold.ts',
      'src/ledger/settle-job.ts',
      'src/ledger/replace-job.ts',
      'src/ledger/run-jobs.ts',
    ],
    tests: ['test/db/claim.test.ts', 'test/db/settle-job.test.ts', 'test/db/processes.test.ts', 'test/db/ledger-runs.test.ts'],
  },
  {
    files: [
      'src/ledger/processes.ts',
      'src/ledger/runs.ts',
      'src/ledger/run-list.ts',
      'src/ledger/cancel.ts',
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
    files: ['src/ledger/report-memo.ts', 'src/ledger/budget.ts', 'src/ledger/ask.ts'],
    tests: ['test/db/ledger-reports.test.ts'],
  },
  {
    files: ['src/ledger/candidates.ts'],
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
  { files: ['src/plan/pack.ts', 'src/plan/steps.ts'], tests: ['test/unit/plan/pack.test.ts', 'test/db/plan-jobs.test.ts'] },
  { files: ['src/ledger/quarantine.ts'], tests: ['test/db/ledger-quarantine.test.ts', 'test/db/load-windows.test.ts'] },
  {
    files: ['src/ledger/actions.ts', 'src/ledger/release.ts', 'src/ledger/replay.ts'],
    tests: ['test/db/actions.test.ts', 'test/db/replay.test.ts'],
  },
  {
    files: [
      'src/ledger/units.ts',
      'src/ledger/loads.ts',
      'src/ledger/answers.ts',
      'src/load/accepted-units.ts',
      'src/pipeline/load-window.ts',
      'src/pipeline/load-answer.ts',
      'src/pipeline/load-windows.ts',
      'src/pipeline/hold-back.ts',
      'src/pipeline/judge.ts',
    ],
    tests: ['test/db/load-windows.test.ts', 'test/db/load.test.ts', 'test/db/load-oracle.test.ts'],
  },
  {
    files: ['src/load/merge.ts', 'src/load/merge-context.ts', 'src/load/merge-scope.ts', 'src/load/merge-statements.ts'],
    tests: [
      'test/db/merge-statements.test.ts',
      'test/db/same-rows.test.ts',
      'test/db/load.test.ts',
      'test/db/merge-guards.test.ts',
      'test/db/load-windows.test.ts',
    ],
  },
  { files: ['src/load/rows-at-once.ts', 'src/pipeline/load-at-once.ts'], tests: ['test/db/load-at-once.test.ts'] },
  {
    files: ['src/extract/report.ts', 'src/extract/report-submit.ts', 'src/extract/report-api.ts'],
    tests: ['test/unit/extract/report.test.ts'],
  },
  {
    files: ['src/pipeline/settle.ts', 'src/pipeline/settle-job.ts'],
    tests: ['test/unit/pipeline/settle.test.ts', 'test/unit/pipeline/settle-job.test.ts', 'test/unit/pipeline/split-job.test.ts'],
  },
]
