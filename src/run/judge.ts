// Judges an answer as a whole before any of it is loaded; a refused answer is kept, with the verdict.
import type { Completeness } from '../core/completeness.ts'
import { counted } from '../core/counted.ts'
import { EtlError, type ErrorCode } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import { showSpan, windowAt } from '../core/window.ts'
import { recordedVerdict, setVerdict } from '../ledger/answers.ts'
import { lockJob } from '../ledger/claim-fence.ts'
import { insertQuarantine, type QuarantineEntry, supersede } from '../ledger/quarantine.ts'
import { unitOfAnswer } from '../ledger/job-units.ts'
import { sumOf } from '../load/difference.ts'
import { isOfAnotherRequest, type ParseReport } from '../parse/parse-report.ts'
import type { JobWork, LandedAnswer, Load, ParsedAnswer } from './job-work.ts'
import { agreesWithoutDuplicates, judgePoints, type PointsRule } from './judge-points.ts'
import { conflictRecords } from './rows-of-job.ts'

/** Enough to see what is wrong with an answer that is refused. */
const shownRejects = 1_000

/** Codes that say something of the answer, not of the attempt to load it. */
const verdicts: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['INCOMPLETE', 'TOO_MANY_REJECTS', 'WRONG_ECHO'])

export const isVerdict = (error: unknown): error is EtlError => error instanceof EtlError && verdicts.has(error.code)

/** How many rejected and conflicting rows an answer of so many rows may have. */
const allowedRejects = ({ definition: { limits } }: JobWork, read: number): number =>
  Math.min(limits.rejectCount ?? Number.POSITIVE_INFINITY, Math.floor(read * limits.rejectShare))

/** Throws TOO_MANY_REJECTS; WRONG_ECHO where every row has values that were not requested, whatever the limit: it is the file of another report. */
const judgeRejects = (work: JobWork, rejects: number, parsed: ParseReport): void => {
  const { read } = parsed
  const { definition, claim } = work
  const allowed = allowedRejects(work, read)
  const [first] = parsed.rejected
  if (first !== undefined && isOfAnotherRequest(parsed))
    throw rowsOutside(work, `all ${read} rows are of other values, such as line ${first.line}: ${first.reason}`)
  if (rejects <= allowed) return
  throw new EtlError(
    'TOO_MANY_REJECTS',
    `${claim.box.key}: ${rejects} of ${read} rows were rejected, the definition allows ${allowed} (limits.rejects). ` +
      `See \`millrace quarantine list ${definition.pipeline}\`; then correct the columns or raise the limit.`,
  )
}

/** Throws TRUNCATED. */
const judgeLastLine = (
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
const judgeCount = ({ claim }: JobWork, distinct: number, { expectedRows }: Completeness): void => {
  if (expectedRows === null || distinct === expectedRows) return
  throw new EtlError(
    'INCOMPLETE',
    `${claim.box.key}: ${distinct} distinct rows arrived, the service announces ${expectedRows}. Nothing was loaded; ` +
      'the next run reads it again.',
  )
}

/** Throws INCOMPLETE, but for what a person released or the pipeline has loaded before. */
const judgeSums = async ({ claim, runtime }: JobWork, { answerId, completeness: { otherSums } }: LandedAnswer): Promise<void> => {
  if (otherSums == null || claim.released) return
  if ((await recordedVerdict(runtime.database.kysely, answerId, claim.pipelineId)).isLoaded) return
  throw new EtlError(
    'INCOMPLETE',
    `${claim.box.key}: ${otherSums} The same came twice, so the report is held. The next run downloads it again, free of charge. Ask the service which is right; ` +
      '`millrace release UNIT` (`millrace status` names it) loads it as it is.',
    { follows: { next: 'keep the answer' } },
  )
}

/**
 * Throws where the answer is refused as a whole; returns `deduplicate` where that depends on repeated keys, which this load did not look for. Conflicting rows
 * count as rejects, and identical ones as one.
 */
export const judgeAnswer = async (
  loading: Load,
  points: PointsRule | null,
  read: ParsedAnswer,
): Promise<'good' | 'deduplicate'> => {
  const { work, answer, conflicting } = loading
  const { parsed, mark, repeated } = read
  judgeLastLine(work, parsed)
  await judgeSums(work, answer)
  if (mark.strays > 0)
    throw rowsOutside(work, `${mark.strays} rows of the answer lie outside the windows or the values asked for`)
  if (parsed.read === 0 && parsed.strays.rows > 0) throw rowsOutside(work, strayWords(work, parsed))
  judgeRejects(work, parsed.rejects, parsed)
  const { completeness } = answer
  if (repeated === null) {
    const { expectedRows } = completeness
    if (expectedRows !== null && parsed.read > expectedRows) return 'deduplicate'
    judgeCount(work, parsed.read, completeness)
    return points === null || agreesWithoutDuplicates(loading, points, read) ? 'good' : 'deduplicate'
  }
  judgeCount(work, parsed.read - sumOf(repeated.duplicates), completeness)
  const { conflicts } = repeated
  const rejects = parsed.rejects + conflicts.length
  if (rejects > allowedRejects(work, parsed.read))
    conflicting.push(...(await conflictRecords(loading, new Set(conflicts.slice(0, shownRejects).map(({ ordinal }) => ordinal)))))
  judgeRejects(work, rejects, parsed)
  if (points !== null) await judgePoints(loading, points, { ...read, repeated })
  return 'good'
}

const rowsOutside = ({ claim }: JobWork, what: string): EtlError => {
  const [whose, next] =
    claim.kind === 'report'
      ? [
          'It may be the file of another report. ',
          ' and nothing is bought again: the next run downloads it again. If that does not help, check its landing: correct the definition, or, where the service ' +
            `gave another report's id, \`millrace reports give-up ${claim.jobId} --sure\` drops it and the next run buys it again`,
        ]
      : ['', '; check its landing and correct the definition']
  return new EtlError('WRONG_ECHO', `${claim.box.key}: ${what}. ${whose}Nothing was loaded${next}.`)
}

/** The message about rows that were not requested. */
export const strayWords = ({ claim, definition }: JobWork, { strays, read }: ParseReport): string => {
  const { window } = claim.box
  const periods = [strays.from, strays.to].map((period) => windowAt(period, definition.window.every))
  const days = [...periods, ...(read > 0 ? [window] : [])].flatMap((one) => [one.from, one.to]).sort()
  const [from = '', to = ''] = [days[0], days.at(-1)]
  return (
    `the service answered for ${showSpan({ from, to })}; requested: ${showSpan(window)}. ` +
    `${counted(strays.rows, 'other row')} ${strays.rows === 1 ? 'stays' : 'stay'} in the landing`
  )
}

/** Writes the verdict, and keeps the rows behind it where they are too many; the data stays as it was. */
export const recordRefusal = async (
  work: JobWork,
  answerId: number,
  { code, message }: { readonly code: ErrorCode; readonly message: string | null },
  entries: readonly QuarantineEntry[],
): Promise<void> => {
  const { runtime, claim } = work
  await runtime.database.kysely.transaction().execute(async (trx) => {
    await lockJob(trx, claim)
    await setVerdict(trx, answerId, code, message === null ? null : redact(message))
    if (code !== 'TOO_MANY_REJECTS' || entries.length === 0) return
    // Replaces those of an earlier attempt: an answer that fails every night must not be in quarantine a hundred times.
    await supersede(trx, claim, answerId, 'all')
    const unitId = await unitOfAnswer(trx, answerId)
    const shown = entries.slice(0, shownRejects).map((entry) => ({ ...entry, unitId }))
    await insertQuarantine(trx, answerId, claim, shown)
  })
}
