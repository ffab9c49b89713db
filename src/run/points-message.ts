// What people read of a report whose rows disagree with its count of data points: both numbers, and which setting would fit them.
import { type AnyReading, type Arrived, type DataPointReading, showArrived } from '../core/data-point-counts.ts'

/** What was compared. */
export interface Differing {
  readonly announced: number
  readonly arrived: Arrived
  /** `web-analytics.report/traffic_and_engagement` */
  readonly dataset: string
}

const numbers = ({ announced, arrived }: Differing): string =>
  `${showArrived(arrived)} arrived, the service announces ${announced} data points.`

/** @param known what the dataset is known to count; null: this is its first report. */
export const differs = (found: Differing, known: readonly AnyReading[] | null): string => {
  const seen =
    known === null
      ? `This is the first report of ${found.dataset} that gives a count, and it agrees neither with its rows nor with its cells.`
      : `${found.dataset} counts ${words(known)}.`
  return `${numbers(found)} ${seen}`
}

export const doubtful = (found: Differing, agree: readonly DataPointReading[]): string =>
  `${numbers(found)} That agrees with its ${words(agree)}, but as many rows may have been ` +
  `meant: much of what was asked for has no row, and it is not known yet what ${found.dataset} counts.`

export const fetchedAgain = 'Nothing was loaded; the report is downloaded once more, it is not bought again.'

/** Settings by which the report would be whole. */
export interface Fitting {
  readonly settings: readonly AnyReading[]
  /** Whether it is the first of its dataset: then nobody knows what else may be counted. */
  readonly isFirst: boolean
}

/** @param file of the definition */
export const held = (fitting: Fitting, file: string): string =>
  'Nothing was loaded and nothing is bought again: the report is held. Ask the service whether it is whole. ' +
  `If it is, ${ifWhole(fitting, file)} If it is not, \`millrace release UNIT\` (\`millrace status\` names it) loads it as it is.`

const ifWhole = ({ settings, isFirst }: Fitting, file: string): string => {
  const [first, ...others] = settings
  const or = others.length === 0 ? '' : ` (or ${others.join(', ')})`
  if (first !== undefined)
    return `the service counts ${words(settings)}: write \`report: { data_points: ${first} }\`${or} into ${file}, and the next run judges this report and all later ones by it.`
  return isFirst
    ? `the service counts something else: write \`report: { data_points: ignore }\` into ${file}, and the next run loads this report and all later ones uncompared.`
    : '`millrace release UNIT` loads it.'
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
