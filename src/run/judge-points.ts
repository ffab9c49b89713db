// Whether a report is whole, by the count of data points that the service sends with it. What the service counts is learned from reports that agree.
import {
  type AnyReading,
  type Arrived,
  matchingReadings,
  allReadings,
  type Coverage,
  type DataPointReading,
  dataPointReadings,
  mayLackRows,
  repeatedReadings,
  type Span,
  showArrived,
} from '../core/data-point-counts.ts'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import { recordedVerdict } from '../ledger/answers.ts'
import { datasetOf, knownReadings, narrowReadings } from '../ledger/data-points.ts'
import { sumOf } from '../load/difference.ts'
import { noneRepeated, type Repeated } from '../load/duplicates.ts'
import { parsedKey } from '../load/table-columns.ts'
import type { Load, LoadResult, ParsedAnswer } from './job-work.ts'

/** By what an answer's count of data points is compared. */
export type PointsRule = NonNullable<Awaited<ReturnType<typeof readPointsRule>>>

/**
 * null: nothing is compared, since the service gives no count, a person released the answer or wants no comparison, or this pipeline has loaded it before
 * (another pipeline may have loaded it released, or not compared). `dataset`: that of the account which bought the report; `open`: meanings that are still
 * possible; `mayFetchAgain`: the report came short for the first time, so it is downloaded once more.
 */
export const readPointsRule = async ({ work, answer: { answerId, completeness } }: Load) => {
  const { claim, definition, runtime, source } = work
  const { dataPoints: announced } = completeness
  const rule = definition.report.dataPoints ?? 'learn'
  if (announced === null || claim.released || rule === 'ignore') return null
  const { kysely } = runtime.database
  const before = await recordedVerdict(kysely, answerId, claim.pipelineId)
  if (before.isLoaded) return null
  const own = datasetOf(definition, source)
  const dataset = { ...own, account: before.account ?? own.account }
  const open: readonly AnyReading[] = rule === 'learn' ? ((await knownReadings(kysely, dataset)) ?? dataPointReadings) : [rule]
  const mayFetchAgain = before.timesIncomplete === 0 && before.jobId === claim.jobId
  return { announced, dataset, open, rule, metrics: before.metrics.length, bought: before.metrics, mayFetchAgain }
}

/** Metrics of the report, where their values must be counted to compare; null: they need not be. */
export const valuesCounted = (rule: PointsRule | null): readonly string[] | null =>
  rule?.open.some((reading) => reading.startsWith('non_empty')) ? rule.bought : null

/** The open meanings by which the report is whole if no key comes twice; null: only a deduplicating load, which finds repeated keys, can tell. */
const plainReadings = (loading: Load, { announced, open, metrics, rule }: PointsRule, read: ParsedAnswer) => {
  const arrived = arrivedOf(metrics, read, open)
  const agree = matchingReadings(announced, arrived, open)
  const isClear = agree.length > 0 && (rule !== 'learn' || !isDoubtful({ loading, read, announced }, arrived, open, agree))
  return isClear ? agree : null
}

/** Whether the report is whole if no key comes twice. */
export const agreesWithoutDuplicates = (loading: Load, points: PointsRule, read: ParsedAnswer): boolean =>
  plainReadings(loading, points, read) !== null

/**
 * Records what the report shows, once it is loaded and none of its keys came twice. False: another report, judged meanwhile, has ruled all of it out, or
 * units were left out in which keys may have come twice, so that a repeated row there may make up for a row that another unit lacks.
 */
export const learnWithoutDuplicates = async (
  loading: Load,
  points: PointsRule,
  read: ParsedAnswer,
  { unitsHeld, unitsSkipped }: LoadResult,
): Promise<boolean> => {
  if (unitsHeld + unitsSkipped > 0) return false
  if (points.rule !== 'learn' || points.open.length === 1) return true
  const { work, answer } = loading
  const plain = plainReadings(loading, points, read) ?? []
  const shown = dataPointReadings.filter((reading) => plain.includes(reading))
  return narrowReadings(work.runtime.database.kysely, points.dataset, shown, answer.answerId)
}

interface Judging extends PointsRule {
  readonly loading: Load
  readonly read: ParsedAnswer & { readonly repeated: Repeated }
}

/** Throws INCOMPLETE. */
export const judgePoints = async (loading: Load, rule: PointsRule, read: Judging['read']): Promise<void> => {
  const { claim, definition } = loading.work
  const judging = { ...rule, loading, read }
  const refusal = await refusalOf(judging)
  if (refusal === null) return
  const next = rule.mayFetchAgain ? fetchedAgain : held(fittingSettings(judging, refusal), definition.file)
  throw new EtlError('INCOMPLETE', `${claim.box.key}: ${refusal.text} ${next}`, {
    follows: { next: rule.mayFetchAgain ? 'fetch again' : 'keep the answer' },
  })
}

interface Refusal {
  readonly text: string
  /** Settings that earlier reports have not ruled out. */
  readonly open: readonly AnyReading[]
  /** Whether this is the first report that gives a count. */
  readonly isFirst: boolean
}

/** The open settings by which the report is whole; those that count duplicates only where no other fits. */
const fittingSettings = (judging: Judging, { open, isFirst }: Refusal) => {
  const { agree } = compare(judging, open)
  const plain = agree.filter((reading) => !reading.endsWith('_with_duplicates'))
  return { settings: plain.length > 0 ? plain : agree, isFirst }
}

const withDuplicates = (known: readonly DataPointReading[]): readonly AnyReading[] =>
  repeatedReadings.filter((reading) => known.some((one) => reading.startsWith(one)))

/** null: the report is whole, and what it shows is on record. */
const refusalOf = async (judging: Judging): Promise<Refusal | null> => {
  const { rule, loading, announced, dataset } = judging
  const { work, answer } = loading
  const { kysely } = work.runtime.database
  const found = { announced: answer.completeness.dataPointsSaid ?? announced, dataset: dataset.dataset }
  if (rule !== 'learn') {
    const { arrived, agree } = compare(judging, [rule])
    return agree.length > 0 ? null : { text: differs({ ...found, arrived }, [rule]), open: allReadings, isFirst: false }
  }
  for (;;) {
    const known = await knownReadings(kysely, dataset)
    const open = known ?? dataPointReadings
    const { arrived, agree } = compare(judging, open)
    if (agree.length === 0)
      return {
        text: differs({ ...found, arrived }, known),
        ...{ open: known === null ? allReadings : withDuplicates(known), isFirst: known === null },
      }
    if (open.length === 1) return null
    if (isDoubtful(judging, arrived, open, agree))
      return { text: doubtful({ ...found, arrived }, agree), open: agree, isFirst: false }
    if (await narrowReadings(kysely, dataset, agree, answer.answerId)) return null
  }
}

const compare = <Reading extends AnyReading>({ announced, metrics, read }: Judging, open: readonly Reading[]) => {
  const arrived = arrivedOf(metrics, read, open)
  return { arrived, agree: matchingReadings(announced, arrived, open) }
}

/** Where a load did not look for repeated keys, counts as if no key came twice. */
const arrivedOf = (metrics: number, { parsed, mark, repeated }: ParsedAnswer, open: readonly AnyReading[]): Arrived => {
  const { duplicates, conflicts, conflictingKeys, filled } = repeated ?? noneRepeated
  const all = parsed.read + parsed.passedOver
  const most = all - sumOf(duplicates)
  const { cellsLeftOut: leftOut } = parsed
  // Values that repeated rows may have in fields that are counted and not read.
  const unseen = mark.mostOthers * (all - most + conflicts.length - conflictingKeys)
  const filledSpan = (reading: AnyReading, twins: number, conflicting: number): Span | null =>
    open.includes(reading)
      ? { least: mark.filled - twins - conflicting + leftOut.least, most: mark.filled - twins + leftOut.most }
      : null
  return {
    rows: { least: most - (conflicts.length - conflictingKeys), most },
    metrics,
    filled: filledSpan('non_empty_cells', filled.duplicates, filled.conflicts + unseen),
    all: { rows: all, filled: filledSpan('non_empty_cells_with_duplicates', 0, 0) },
  }
}

/** Whether the report may be cut, or whole and counted otherwise: only what was requested tells the two apart. */
const isDoubtful = (
  { loading, read, announced }: { readonly loading: Load; readonly read: ParsedAnswer; readonly announced: number },
  arrived: Arrived,
  open: readonly AnyReading[],
  agree: readonly AnyReading[],
): boolean => {
  if (!open.includes('rows') || agree.includes('rows') || announced <= arrived.rows.most) return false
  return mayLackRows(announced, arrived, coverageOf(loading, read))
}

const coverageOf = ({ work: { definition }, answer: { box }, units }: Load, { mark }: ParsedAnswer): Coverage => ({
  mostRows: hasFreeDimension(definition)
    ? null
    : units.sliceIds.length * windowsBetween(box.window.from, box.window.to, definition.period.every).length,
  share: mark.rows.reduce((sum, rows) => sum + (rows > 0 ? 1 : 0), 0) / mark.rows.length,
})

/** A key column that comes with the answer and is neither the period nor asked for, such as a channel. */
const hasFreeDimension = (definition: Definition): boolean =>
  parsedKey(definition).some(
    ({ name, type }) => type !== 'date' && !definition.dimensions.some((dimension) => dimension.name === name),
  )

/** What was compared. */
interface Differing {
  /** A text where it is more than a number holds. */
  readonly announced: number | string
  readonly arrived: Arrived
  /** `web-analytics.report/traffic_and_engagement` */
  readonly dataset: string
}

const numbers = ({ announced, arrived }: Differing): string =>
  `${showArrived(arrived)} arrived, the service announces ${announced} data points.`

/** @param known what the dataset is known to count; null: this is its first report. */
const differs = (found: Differing, known: readonly AnyReading[] | null): string => {
  const seen =
    known === null
      ? `This is the first report of ${found.dataset} that gives a count, and it agrees neither with its rows nor with its cells.`
      : `${found.dataset} counts ${words(known)}.`
  return `${numbers(found)} ${seen}`
}

const doubtful = (found: Differing, agree: readonly DataPointReading[]): string =>
  `${numbers(found)} That agrees with its ${words(agree)}, but as many rows may have been ` +
  `meant: many requested units have no row, and it is not known yet what ${found.dataset} counts.`

const fetchedAgain = 'Nothing was loaded; the report is downloaded once more, it is not bought again.'

type Fitting = ReturnType<typeof fittingSettings>

/** @param file of the definition */
const held = (fitting: Fitting, file: string): string => {
  const whole = ifWhole(fitting, file)
  const released = '`millrace release UNIT` (`millrace status` names it) loads it as it is.'
  const next = whole === null ? released : `If it is, ${whole} If it is not, ${released}`
  return `Nothing was loaded and nothing is bought again: the report is held, and each later run downloads it again. Ask the service whether it is whole. ${next}`
}

/** null: no setting would make it right. */
const ifWhole = ({ settings, isFirst }: Fitting, file: string): string | null => {
  const [first, ...others] = settings
  const or = others.length === 0 ? '' : ` (or ${others.join(', ')})`
  if (first !== undefined)
    return `the service counts ${words(settings)}: write \`report: { data_points: ${first} }\`${or} into ${file}, and the next run judges this report and all later ones by it.`
  return isFirst
    ? `the service counts something else: write \`report: { data_points: ignore }\` into ${file}, and the next run loads this report and all later ones uncompared.`
    : null
}

const named: Readonly<Record<AnyReading, string>> = {
  rows: 'rows',
  cells: 'cells',
  non_empty_cells: 'cells with a value',
  rows_with_duplicates: 'each of identical rows',
  cells_with_duplicates: 'the cells of each of identical rows',
  non_empty_cells_with_duplicates: 'the cells with a value of each of identical rows',
}

const words = (readings: readonly AnyReading[]): string => readings.map((reading) => named[reading]).join(' or ')
