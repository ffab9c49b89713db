// What those who watch hear of a job that ended well.
import type { ParseReport } from '../parse/parse-report.ts'
import type { JobWork } from './job-work.ts'
import type { LoadResult } from './loading.ts'

/** @param result what the load came to; `unchanged` where the loaded answer still stands. */
export const announce = ({ runtime, claim }: JobWork, result: LoadResult | 'unchanged'): void => {
  runtime.progress.counters.unitsDone += claim.cells
  const names = { run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key, units: claim.cells }
  const loaded = result === 'unchanged' ? null : result
  const heldUnits = loaded?.unitsHeld ?? 0
  const state = loaded === null ? 'unchanged' : heldUnits === claim.cells ? 'held' : 'loaded'
  const rows = loaded?.read ?? 0
  runtime.log.info({ ...names, state, rows, held_units: heldUnits }, 'job done')
  const held = heldUnits > 0 ? { held_units: heldUnits, ...loaded?.heldBecause } : {}
  runtime.progress.emit({ event: 'unit', ...names, state, rows, ...held })
}

/** A column that came or went is loaded around, and said: nobody should find out from a chart. */
export const warnOfDrift = ({ runtime, claim }: JobWork, { newlyMissing, unknownColumns }: ParseReport): void => {
  const said = [
    ...(newlyMissing.length > 0 ? [`the answer lacks ${newlyMissing.join(', ')} (loaded as NULL, or as if_absent says)`] : []),
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
