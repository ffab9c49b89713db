// Whether a report is whole by the count of data points the service gives with it. What it counts is learnt from reports that agree.
import {
  agreeing,
  type Arrived,
  type Coverage,
  dataPointReadings,
  type DataPointReading,
  mayLackRows,
  showArrived,
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
    throw new EtlError('INCOMPLETE', `${claim.box.key}: ${refusal} ${nextStep(mayFetchAgain)}`, {
      context: mayFetchAgain ? { fetchAgain: true } : { keepAnswer: true },
    })
  }
}

const nextStep = (mayFetchAgain: boolean): string =>
  mayFetchAgain
    ? 'Nothing was loaded; the report is downloaded once more, it is not bought again.'
    : 'Nothing was loaded and nothing is bought again: the report is held. Ask the service; if the answer is right, `millrace release UNIT` ' +
      '(`millrace status` names it) loads it, and report: { data_points: … } in the definition says what the service counts.'

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
const refusalOf = async (judging: Judging, repeated: Repeated | null): Promise<string | null> => {
  const { work, rule } = judging
  if (rule !== 'learn') {
    const { arrived, agree } = await compare(judging, [rule], repeated)
    return agree.length > 0 ? null : differs(judging, arrived, [rule])
  }
  const { kysely } = work.runtime.database
  const dataset = datasetOf(work.definition, work.source)
  for (;;) {
    const known = await knownReadings(kysely, dataset)
    const open = known ?? dataPointReadings
    const { arrived, agree } = await compare(judging, open, repeated)
    if (agree.length === 0) return differs(judging, arrived, known)
    if (open.length === 1) return null
    if (await isDoubtful(judging, arrived, open, agree)) return doubtful(judging, arrived, agree)
    if (await narrowReadings(kysely, dataset, agree, judging.answerId)) return null
  }
}

interface Compared {
  readonly arrived: Arrived
  readonly agree: readonly DataPointReading[]
}

/** Repeated rows are looked for where they matter: while it is not settled what is counted, and where the count differs. */
const compare = async (judging: Judging, open: readonly DataPointReading[], repeated: Repeated | null): Promise<Compared> => {
  const by = async (known: Repeated | null): Promise<Compared> => {
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
  open: readonly DataPointReading[],
  repeated: Repeated | null,
): Promise<Arrived> => {
  const { parsed, staging } = input
  const most = parsed.read + parsed.passedOver - (repeated?.duplicates ?? 0)
  const least = most - (repeated === null ? 0 : repeated.conflicting - repeated.conflictingKeys)
  const rows = { least, most }
  if (!open.includes('non_empty_cells')) return { rows, metrics, filled: null }
  const staged = await countFilled(session, work.definition, staging, repeated !== null)
  const { cellsLeftOut } = parsed
  return { rows, metrics, filled: { least: staged.least + cellsLeftOut.least, most: staged.most + cellsLeftOut.most } }
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

const differs = ({ announced, work }: Judging, arrived: Arrived, known: readonly DataPointReading[] | null): string => {
  const { dataset } = datasetOf(work.definition, work.source)
  const seen =
    known === null
      ? `This is the first report of ${dataset} that gives a count, and it agrees neither with its rows nor with its cells.`
      : `${dataset} counts ${words(known)}.`
  return `${showArrived(arrived)} arrived, the service announces ${announced} data points. ${seen}`
}

const doubtful = ({ announced, work }: Judging, arrived: Arrived, agree: readonly DataPointReading[]): string =>
  `${showArrived(arrived)} arrived, the service announces ${announced} data points. That agrees with its ${words(agree)}, but as many rows may have been ` +
  `meant: much of what was asked for has no row, and it is not known yet what ${datasetOf(work.definition, work.source).dataset} counts.`

const words = (readings: readonly DataPointReading[]): string =>
  readings.map((reading) => (reading === 'non_empty_cells' ? 'cells with a value' : reading)).join(' or ')
