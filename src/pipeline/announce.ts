// What whoever watches is told of a job that ended well.
import type { ParseReport } from '../parse/report.ts'
import type { JobWork } from './job-work.ts'
import type { LoadResult } from './load-result.ts'

/** @param result what the load came to; `unchanged` where the loaded answer still stands. */
export const announce = ({ runtime, claim }: JobWork, result: LoadResult | 'unchanged'): void => {
  runtime.progress.counters.unitsDone += claim.cells
  const names = { run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key, units: claim.cells }
  const [state, rows, heldUnits] =
    result === 'unchanged' ? ['unchanged' as const, 0, 0] : ['loaded' as const, result.read, result.unitsHeld]
  runtime.log.info({ ...names, state, rows, held_units: heldUnits }, 'job done')
  runtime.progress.emit({ event: 'unit', ...names, state, rows, ...(heldUnits > 0 ? { held_units: heldUnits } : {}) })
}

/** A column that came or went is loaded around, and said: nobody should find out from a chart. */
export const warnOfDrift = ({ runtime, claim }: JobWork, { missingColumns, unknownColumns }: ParseReport): void => {
  const said = [
    ...(missingColumns.length > 0 ? [`the answer lacks ${missingColumns.join(', ')} (loaded as NULL)`] : []),
    ...(unknownColumns.length > 0
      ? [`the answer has ${unknownColumns.join(', ')}, which the definition does not name (left in the landing)`]
      : []),
  ]
  if (said.length > 0)
    runtime.progress.emit({
      event: 'notice',
      code: 'DRIFT',
      message: `${claim.box.key}: ${said.join('; ')}. Correct the definition, then run \`millrace replay\`.`,
    })
}
