// What is found of an answer as a whole before any of it is loaded; what is refused is kept, with the verdict.
import type { Completeness } from '../core/completeness.ts'
import { EtlError, type ErrorCode } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import { setVerdict } from '../ledger/answers.ts'
import { lockJob } from '../ledger/hold.ts'
import { insertQuarantine, type QuarantineEntry, supersedeAnswer } from '../ledger/quarantine.ts'
import { unitOfAnswer } from '../ledger/units.ts'
import type { Repeated } from '../load/duplicates.ts'
import type { ParseReport, RejectedRow } from '../parse/report.ts'
import type { JobWork } from './job-work.ts'
import type { JudgePoints } from './judge-points.ts'
import type { LoadInput } from './load-input.ts'

/** Enough to see what is wrong with an answer that is refused. */
const shownRejects = 1_000

/** Codes that say something of the answer, not of the attempt to load it. */
const verdicts: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['INCOMPLETE', 'TOO_MANY_REJECTS', 'WRONG_ECHO'])

export const isVerdict = (error: unknown): error is EtlError => error instanceof EtlError && verdicts.has(error.code)

/** Rejected rows, and those that conflict, that an answer of so many rows may have. */
const allowedRejects = ({ definition: { limits } }: JobWork, read: number): number =>
  Math.min(limits.rejectCount ?? Number.POSITIVE_INFINITY, Math.floor(read * limits.rejectShare))

/** Throws TOO_MANY_REJECTS. */
export const judgeRejects = (work: JobWork, rejects: number, read: number): void => {
  const { definition, claim } = work
  const allowed = allowedRejects(work, read)
  if (rejects <= allowed) return
  throw new EtlError(
    'TOO_MANY_REJECTS',
    `${claim.box.key}: ${rejects} of ${read} rows were rejected, the definition allows ${allowed} (limits.rejects). ` +
      `See \`millrace quarantine list ${definition.pipeline}\`; then correct the columns or raise the limit.`,
  )
}

/** Throws TRUNCATED. */
export const judgeLastLine = (
  { claim, definition }: Pick<JobWork, 'claim' | 'definition'>,
  { unended }: Pick<ParseReport, 'unended'>,
): void => {
  if (unended === null || definition.report.finalNewline === 'optional') return
  const ifNever =
    claim.kind === 'report'
      ? ` If the service never ends its last line, write \`report: { final_newline: optional }\` into ${definition.file}.`
      : ''
  throw new EtlError(
    'TRUNCATED',
    `${claim.box.key}: part ${unended.part}, line ${unended.line}: the last line does not end as the others do, so the body was cut off. ` +
      `Nothing was loaded; it is asked for again.${ifNever}`,
  )
}

/** Throws INCOMPLETE. @param distinct rows that came, identical ones counted once */
export const judgeCount = ({ claim }: JobWork, distinct: number, { expectedRows }: Completeness): void => {
  if (expectedRows === null || distinct === expectedRows) return
  throw new EtlError(
    'INCOMPLETE',
    `${claim.box.key}: ${distinct} distinct rows arrived, the service announces ${expectedRows}. Nothing was loaded; ` +
      'the next run reads it again.',
  )
}

export interface Judging {
  readonly input: LoadInput
  readonly answerId: number
  /** Filled with the records behind a refusal because of conflicts. */
  readonly conflicting: QuarantineEntry[]
  readonly judgePoints: JudgePoints
}

/** Conflicting rows are rejects too, and identical ones are one. */
export const judgeRepeated =
  (work: JobWork, { input, conflicting, judgePoints }: Judging): ((repeated: Repeated) => Promise<void>) =>
  async (repeated) => {
    const { parsed, completeness } = input
    judgeCount(work, parsed.read - repeated.duplicates, completeness)
    const rejects = parsed.rejects + repeated.conflicting
    if (rejects > allowedRejects(work, parsed.read))
      conflicting.push(...(await input.rawRecords(new Set(await repeated.first(shownRejects)))))
    judgeRejects(work, rejects, parsed.read)
    await judgePoints(repeated)
  }

export const entryOf = ({ part, line, column, reason, raw }: RejectedRow): QuarantineEntry => ({
  part,
  line,
  column,
  reason,
  raw,
})

/** Writes the verdict, and keeps the rows behind it where they are too many; the data stays as it was. */
export const refuse = async (
  work: JobWork,
  answerId: number,
  { code, message }: { readonly code: ErrorCode; readonly message: string | null },
  entries: readonly QuarantineEntry[],
): Promise<void> => {
  const { runtime, claim, definition } = work
  await runtime.database.kysely.transaction().execute(async (trx) => {
    await lockJob(trx, claim)
    await setVerdict(trx, answerId, code, message === null ? null : redact(message))
    if (code !== 'TOO_MANY_REJECTS' || entries.length === 0) return
    // Those of an earlier try give way: an answer that fails every night is not in quarantine a hundred times.
    await supersedeAnswer(trx, answerId)
    const unitId = await unitOfAnswer(trx, answerId)
    await insertQuarantine(trx, {
      answerId,
      jobId: claim.jobId,
      runId: claim.runId,
      pipeline: definition.pipeline,
      entries: entries.slice(0, shownRejects).map((entry) => ({ ...entry, unitId })),
    })
  })
}

/** For an answer that parsing gave up on, being nothing but rejects. */
export const keepRejects = (work: JobWork, answerId: number, parsed: ParseReport): Promise<void> =>
  refuse(work, answerId, { code: 'TOO_MANY_REJECTS', message: null }, parsed.rejected.slice(0, shownRejects).map(entryOf))
