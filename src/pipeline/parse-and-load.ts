// An answer from its parts to the table: parsed as they come, recorded, judged, loaded.
import { inSpan } from '../core/trace.ts'
import type { Box } from '../core/types.ts'
import { type Session, withSession } from '../db/session.ts'
import { openStaging, type Staging } from '../load/staging.ts'
import type { ParsePlan } from '../parse/plan.ts'
import { createParseReport } from '../parse/report.ts'
import { announce, warnOfDrift } from './announce.ts'
import { conflictRecords } from './conflict-records.ts'
import { loadFilled, openMonthFilling } from './fill-month.ts'
import type { JobWork } from './job-work.ts'
import { judgeLastLine, keepRejects } from './judge.ts'
import type { Landed, LandedParts } from './land.ts'
import { loadAnswer } from './load-answer.ts'
import type { LoadInput } from './load-input.ts'
import type { LoadResult } from './load-result.ts'
import { record, reopened } from './record-answer.ts'
import { stageParts } from './stage-answer.ts'

/** What the answer at hand was asked for, and how such answers are parsed. */
export interface Asked {
  readonly box: Box
  readonly plan: ParsePlan
}

/**
 * A month's first answer goes straight into the month's table; where that does not fit it is read once more, from its landing.
 * @param answerId null: not recorded yet. A report's answer is recorded before anything else happens; a walk's few pages may be asked for again.
 */
export const parseAndLoad = (work: JobWork, asked: Asked, parts: LandedParts, answerId: number | null): Promise<void> =>
  withSession(work.runtime.database.pool, async (session) => {
    const staged = { staging: openStaging(session, work.definition), plan: asked.plan, load: loadAnswer }
    const filled = await openMonthFilling(work, session, asked.box)
    if (filled === null) return void (await readAndLoad(work, session, { ...asked, ...staged }, parts, answerId))
    const { filling, mark } = filled
    const plan = { ...asked.plan, mark }
    const load: Way['load'] = (_, inside, input) => loadFilled(work, inside, filled, input)
    const left = await readAndLoad(work, session, { ...asked, plan, staging: filling, load }, parts, answerId)
    if (left === null) return
    const { locator } = left.landed
    const again = reopened(locator, () => work.runtime.landing.open(locator, work.signal))
    await readAndLoad(work, session, { ...asked, ...staged }, again, left.answerId)
  })

/** How an answer's rows reach the database. */
interface Way extends Asked {
  readonly staging: Staging
  /** null: this way does not fit the answer, and nothing of it is loaded. */
  readonly load: (work: JobWork, session: Session, input: LoadInput) => Promise<LoadResult | null>
}

/** null: it is loaded; else what was landed, to be read another way. */
const readAndLoad = async (
  work: JobWork,
  session: Session,
  { box, plan, staging, load }: Way,
  parts: LandedParts,
  answerId: number | null,
): Promise<{ readonly landed: Landed; readonly answerId: number } | null> => {
  const parsed = createParseReport()
  const { result: landed, refusal } = await stageParts(work, plan, staging, parsed, parts)
  const known = onRecord(work, landed, answerId)
  if (work.claim.kind === 'report') await known()
  if (refusal !== null) {
    await keepRejects(work, await known(), parsed)
    throw refusal
  }
  judgeLastLine(work, parsed)
  const { manifest, locator, completeness } = landed
  const result = await inSpan('load', { 'millrace.job': work.claim.box.key, 'millrace.rows': parsed.read }, () =>
    load(work, session, {
      staging,
      parsed,
      completeness,
      landing: { locator, sha256: manifest.sha256, bytes: manifest.bytes },
      box,
      answerId,
      record: known,
      rawRecords: (ordinals) => conflictRecords(work.runtime.landing, locator, plan, ordinals),
    }),
  )
  if (result === null) work.runtime.progress.counters.rowsRead -= parsed.rows
  else announce(work, result)
  if (result !== null) warnOfDrift(work, parsed)
  // After an error the session is thrown away as it is: emptying the table over a dead connection would hide what happened, or hang.
  await staging.close()
  return result === null ? { landed, answerId: await known() } : null
}

/** Puts the answer on record, once; its number. */
const onRecord = (work: JobWork, landed: Landed, answerId: number | null): (() => Promise<number>) => {
  let recording: Promise<number> | null = answerId === null ? null : Promise.resolve(answerId)
  return () => {
    recording ??= record(work, landed)
    return recording
  }
}
