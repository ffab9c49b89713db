// Whether a report is whole by the count of data points the service gives with it. What it counts is learnt from reports that agree.
import {
  agreeing,
  allReadings,
  type AnyReading,
  type Arrived,
  type Coverage,
  dataPointReadings,
  type DataPointReading,
  mayLackRows,
  repeatedReadings,
  type Span,
} from '../core/data-points.ts'
import { EtlError } from '../core/errors.ts'
import type { Box, Definition } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import type { Session } from '../db/session.ts'
import { judgedBefore } from '../ledger/answers.ts'
import { type CountedDataset, knownReadings, narrowReadings } from '../ledger/data-points.ts'
import { countFilled, countUnitsWithRows } from '../load/arrived.ts'
import { dropRepeated, findRepeated, hasRepeated, type Repeated } from '../load/duplicates.ts'
import { stagedKey } from '../load/table-columns.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { JobWork } from './job-work.ts'
import type { LoadInput } from './load-input.ts'
import { differs, doubtful, fetchedAgain, type Fitting, held } from './points-message.ts'

/** Judges rows whose keys are not repeated, as far as is known; called again once they turn out to be. Throws INCOMPLETE. */
export type JudgePoints = (repeated: Repeated | null) => Promise<void>

const judgeNothing: JudgePoints = async () => undefined

/** The dataset as the ledger and people name it: `web-analytics.report/traffic_and_engagement`. */
export const datasetOf = (definition: Definition, { datasetOf: own }: Pick<SourceSpec, 'datasetOf'>): CountedDataset => {
  const { account, source } = definition
  return { account, dataset: own === undefined ? source : `${source}/${own(definition)}` }
}

/**
 * How the answer is to be judged. Nothing is compared where the service gives no count, where a person released the answer or wants no comparison, and where
 * the answer was found good before.
 */
export const pointsJudge = async (work: JobWork, session: Session, input: LoadInput, answerId: number): Promise<JudgePoints> => {
  const { claim, definition, runtime } = work
  const announced = input.completeness.dataPoints
  const rule = definition.report.dataPoints ?? 'learn'
  if (announced === null || claim.released || rule === 'ignore') return judgeNothing
  const before = await judgedBefore(runtime.database.kysely, answerId)
  if (before.verdict === 'good') return judgeNothing
  const judging: Judging = { work, session, input, answerId, announced, rule, metrics: before.metrics.length }
  return async (repeated) => {
    const refusal = await refusalOf(judging, repeated)
    if (refusal === null) return
    const mayFetchAgain = before.timesIncomplete === 0 && before.jobId === claim.jobId
    const next = mayFetchAgain ? fetchedAgain : held(await fittingSettings(judging, refusal, repeated), definition.file)
    throw new EtlError('INCOMPLETE', `${claim.box.key}: ${refusal.text} ${next}`, {
      context: mayFetchAgain ? { fetchAgain: true } : { keepAnswer: true },
    })
  }
}

interface Refusal {
  readonly text: string
  /** Settings that nothing speaks against: none that earlier reports have ruled out. */
  readonly open: readonly AnyReading[]
  /** Whether this is the first report that gives a count. */
  readonly isFirst: boolean
}

/** Of the settings that are open those by which the report is whole; that duplicates count only where nothing else fits. */
const fittingSettings = async (judging: Judging, { open, isFirst }: Refusal, repeated: Repeated | null): Promise<Fitting> => {
  const { agree } = await compare(judging, open, repeated)
  const plain = agree.filter((reading) => !reading.endsWith('_with_duplicates'))
  return { settings: plain.length > 0 ? plain : agree, isFirst }
}

const withDuplicates = (known: readonly DataPointReading[]): readonly AnyReading[] =>
  repeatedReadings.filter((reading) => known.some((one) => reading.startsWith(one)))

interface Judging {
  readonly work: JobWork
  readonly session: Session
  readonly input: LoadInput
  readonly answerId: number
  readonly announced: number
  readonly rule: Exclude<Definition['report']['dataPoints'], 'ignore' | undefined>
  /** How many were asked for. */
  readonly metrics: number
}

/** null: the report is whole, and what it shows is on record. */
const refusalOf = async (judging: Judging, repeated: Repeated | null): Promise<Refusal | null> => {
  const { work, rule } = judging
  const { kysely } = work.runtime.database
  const dataset = datasetOf(work.definition, work.source)
  const found = { announced: judging.announced, dataset: dataset.dataset }
  if (rule !== 'learn') {
    const { arrived, agree } = await compare(judging, [rule], repeated)
    return agree.length > 0 ? null : { text: differs({ ...found, arrived }, [rule]), open: allReadings, isFirst: false }
  }
  for (;;) {
    const known = await knownReadings(kysely, dataset)
    const open = known ?? dataPointReadings
    const { arrived, agree } = await compare(judging, open, repeated)
    if (agree.length === 0)
      return {
        text: differs({ ...found, arrived }, known),
        ...{ open: known === null ? allReadings : withDuplicates(known), isFirst: known === null },
      }
    if (open.length === 1) return null
    if (await isDoubtful(judging, arrived, open, agree))
      return { text: doubtful({ ...found, arrived }, agree), open: agree, isFirst: false }
    if (await narrowReadings(kysely, dataset, agree, judging.answerId)) return null
  }
}

interface Compared<Reading> {
  readonly arrived: Arrived
  readonly agree: readonly Reading[]
}

/** Repeated rows are looked for where they matter: while it is not settled what is counted, and where the count differs. */
const compare = async <Reading extends AnyReading>(
  judging: Judging,
  open: readonly Reading[],
  repeated: Repeated | null,
): Promise<Compared<Reading>> => {
  const by = async (known: Repeated | null): Promise<Compared<Reading>> => {
    const arrived = await arrivedOf(judging, open, known)
    return { arrived, agree: agreeing(judging.announced, arrived, open) }
  }
  if (repeated !== null) return by(repeated)
  const plain = await by(null)
  if (open.length === 1 && plain.agree.length === 1) return plain
  const { work, session, input } = judging
  if (!(await hasRepeated(session, work.definition, input.staging))) return plain
  const compared = await by(await findRepeated(session, work.definition, input.staging))
  await dropRepeated(session)
  return compared
}

const arrivedOf = async (
  { work, session, input, metrics }: Judging,
  open: readonly AnyReading[],
  repeated: Repeated | null,
): Promise<Arrived> => {
  const { parsed, staging } = input
  const all = parsed.read + parsed.passedOver
  const most = all - (repeated?.duplicates ?? 0)
  const least = most - (repeated === null ? 0 : repeated.conflicting - repeated.conflictingKeys)
  const { cellsLeftOut: leftOut } = parsed
  const filled = async (reading: AnyReading, isDistinct: boolean): Promise<Span | null> => {
    if (!open.includes(reading)) return null
    const staged = await countFilled(session, work.definition, staging, isDistinct)
    return { least: staged.least + leftOut.least, most: staged.most + leftOut.most }
  }
  return {
    ...{ rows: { least, most }, metrics, filled: await filled('non_empty_cells', repeated !== null) },
    all: { rows: all, filled: await filled('non_empty_cells_with_duplicates', false) },
  }
}

/** Only what was asked for can tell half a report from a whole one that is counted otherwise. */
const isDoubtful = async (
  { work, session, input, announced }: Judging,
  arrived: Arrived,
  open: readonly DataPointReading[],
  agree: readonly DataPointReading[],
): Promise<boolean> => {
  if (!open.includes('rows') || agree.includes('rows') || announced <= arrived.rows.most) return false
  return mayLackRows(announced, arrived, await coverageOf(work.definition, input, session))
}

const coverageOf = async (definition: Definition, { box, staging }: LoadInput, session: Session): Promise<Coverage> => {
  const slices = Object.values(box.slice).reduce(
    (product, values) => product * (typeof values === 'string' ? 1 : values.length),
    1,
  )
  const units = slices * windowsBetween(box.window.from, box.window.to, definition.window.every).length
  return {
    mostRows: hasFreeDimension(definition) ? null : slices * periodsIn(definition, box),
    share: (await countUnitsWithRows(session, definition, staging)) / units,
  }
}

/** A key column that comes with the answer and is neither the period nor asked for, such as a channel. */
const hasFreeDimension = (definition: Definition): boolean =>
  stagedKey(definition).some(
    ({ name, type }) => type !== 'date' && !definition.dimensions.some((dimension) => dimension.name === name),
  )

/** Periods that a row can be for, at most. */
const periodsIn = ({ period }: Definition, { window }: Box): number => windowsBetween(window.from, window.to, period.every).length
