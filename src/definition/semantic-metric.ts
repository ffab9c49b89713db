// One metric of a semantic file: its formula, and over which dimensions it adds up.
import { suggest } from './problem.ts'
import type { MetricFile } from './semantic-schema.ts'
import { type EntryPlace, type Formula, type Metric, partsOf, type Subject, windowOf, withFiscal } from './semantic.ts'
import type { Path, YamlFile } from './yaml-file.ts'

/** A file, and a function that records its problems. */
export interface Checking {
  readonly yaml: YamlFile
  wrong(path: Path, message: string, part?: 'key' | 'value'): void
}

/** The place of a key in its file. */
export const keyPlace = (yaml: YamlFile, path: Path): EntryPlace => ({ file: yaml.file, ...yaml.place(path, 'key') })

/** The metrics that an `against` is made of. It compares two periods over rows that have the figure in both: each sum leaves out rows that the other side lacks. */
export const comparedOf = ([name, one]: [string, MetricFile]): [string, MetricFile][] => {
  const { against: of, synonyms, ...rest } = one
  if (of === undefined) return [[name, one]]
  const sum = (column: string, other: string, about: string): [string, MetricFile] => [
    `compared_${column}`,
    { ...rest, about, sum: column, where: `${other} is not null` },
  ]
  const named = of.replaceAll('_', ' ')
  const capital = `${named[0]?.toUpperCase()}${named.slice(1)}`
  return [
    sum(of, `${of}_before`, `${capital}, over rows that have a value in both months.`),
    sum(`${of}_before`, of, `${capital} of the earlier month, over the same rows.`),
    [
      name,
      {
        ...rest,
        ...(synonyms === undefined ? {} : { synonyms }),
        ratio: { of: `compared_${of}`, to: `compared_${of}_before` },
        unit: 'times the earlier month',
        format: 'decimal',
      },
    ],
  ]
}

const formulaKinds = ['sum', 'count_distinct', 'min', 'max', 'median', 'quantile', 'mean', 'ratio', 'derived', 'share', 'cumulative', 'rolling'] as const // biome-ignore format: one look

/** null: the metric has no formula, which is reported. */
export const metricOf = (name: string, one: MetricFile, subject: Subject, { yaml, wrong }: Checking): Metric | null => {
  const path = ['metrics', name]
  const kinds = formulaKinds.filter((kind) => one[kind] !== undefined)
  const [kind] = kinds
  if (kind === undefined || kinds.length > 1) {
    const found = kinds.length === 0 ? 'no formula' : `${kinds.length} formulas (${kinds.join(', ')})`
    wrong(path, `${name} has ${found}; expected one of ${formulaKinds.join(', ')}.`, 'key')
    return null
  }
  const places = [...subject.dimensions.keys(), ...(subject.time === null ? [] : [subject.time.column])]
  for (const [part, dimension] of [
    ...Object.keys(one.never_over ?? {}).map((of) => ['never_over', of] as const),
    ...(one.whole_of ?? []).map((of) => ['whole_of', of] as const),
  ])
    if (!places.includes(dimension))
      wrong(
        [...path, part, ...(part === 'never_over' ? [dimension] : [])],
        `'${dimension}' is neither a dimension nor the time of ${subject.name}.${suggest(dimension, places)}`,
        'key',
      )
  const allowed = withFiscal(subject.time?.grains ?? [])
  for (const [at, grain] of (one.grains ?? []).entries())
    if (!allowed.includes(grain))
      wrong([...path, 'grains', at], `${subject.name} has no grain '${grain}'; it has ${allowed.join(', ') || 'none'}.`)
  return {
    at: keyPlace(yaml, path),
    name,
    about: one.about,
    formula: formulaOf(one),
    where: one.where ?? null,
    known: one.known ?? null,
    unit: one.unit,
    format: one.format,
    synonyms: one.synonyms ?? [],
    neverOver: neverOver(kind, one, subject),
    wholeOf: one.whole_of ?? (one.share === undefined ? [] : [one.share.over]),
    grains: one.grains ?? allowed,
  }
}

/**
 * Dimensions over which a figure does not add up, with the reason. A sum does not add up over a dimension in which one value contains the others (the parts may overlap), nor over columns of the
 * grain that do not belong to the slice (the same may be in several rows), unless the file says that they do not overlap.
 */
const neverOver = (kind: string, one: MetricFile, { dimensions, grain, slice, pipeline }: Subject): Metric['neverOver'] => {
  const found = new Map(Object.entries(one.never_over ?? {}))
  for (const name of one.whole_of ?? []) found.set(name, `each row has the figure of all values of ${name}`)
  const proved = one.adds_up_over ?? []
  const isOfRows = kind === 'median' || kind === 'quantile'
  if ((kind !== 'sum' && !isOfRows) || pipeline === null || proved === 'all') return found
  for (const { name, column, overlap, of } of dimensions.values()) {
    if (of !== null || found.has(name) || proved.includes(name)) continue
    if (overlap.kind === 'whole') found.set(name, `the same can be in several values of ${name}; ${overlap.whole} has it once`)
    else if (!isOfRows && grain.includes(column) && !slice.includes(column))
      found.set(name, `the same can be in several rows of ${name}`)
  }
  return found
}

const formulaOf = (one: MetricFile): Formula => {
  if (one.ratio !== undefined) return { kind: 'ratio', ...one.ratio }
  if (one.mean !== undefined) return { kind: 'mean', ...one.mean }
  if (one.quantile !== undefined) return { kind: 'quantile', ...one.quantile }
  if (one.median !== undefined) return { kind: 'quantile', of: one.median, at: 0.5 }
  if (one.derived !== undefined) return { kind: 'derived', of: one.derived, parts: [...new Set(one.derived.match(metricWords))] }
  if (one.share !== undefined) return { kind: 'share', ...one.share }
  if (one.cumulative !== undefined) return { kind: 'cumulative', of: one.cumulative.of, each: one.cumulative.each ?? null }
  if (one.rolling !== undefined) return { kind: 'rolling', ...one.rolling }
  const kind = (['count_distinct', 'min', 'max'] as const).find((name) => one[name] !== undefined) ?? 'sum'
  return { kind, of: one[kind] ?? '1' }
}

/** Names in an expression, without functions and types. */
export const metricWords = /(?<![:\w'])[a-z_]\w*\b(?!\s*\()/g

/** Checks that the parts of a metric exist and have a kind that can be combined. */
export const checkParts = (
  said: Subject['metrics'],
  metrics: Subject['metrics'],
  { name: of, time, dimensions }: Subject,
  wrong: Checking['wrong'],
): void => {
  for (const metric of said.values()) {
    const { name, formula } = metric
    const path = ['metrics', name, formula.kind]
    const isSingle = formula.kind === 'derived'
    const usable = [...metrics.values()].filter(({ formula: { kind } }) => kind === 'sum' || (isSingle && ['count_distinct', 'min', 'max'].includes(kind))) // biome-ignore format: one look
    const names = usable.map((one) => one.name)
    for (const part of partsOf(formula))
      if (!names.includes(part))
        wrong(formula.kind === 'ratio' ? [...path, formula.of === part ? 'of' : 'to'] : path, `this subject has no ${isSingle ? 'sum, count, smallest or largest value' : 'sum'} '${part}'.${suggest(part, names)}`) // biome-ignore format: one look
    const window = windowOf(metric)
    const over = window?.kind === 'share' ? window.over : (time?.column ?? '')
    if (window === null) continue
    if (window.kind === 'share' && dimensions.get(over)?.of !== null)
      wrong([...path, 'over'], `the view of ${of} has no dimension '${over}'.${suggest(over, [...dimensions.keys()])}`)
    const reason = metrics.get(window.of)?.neverOver.get(over)
    if (reason !== undefined) wrong(path, `${window.of} does not add up over ${over}: ${reason}.`)
  }
}
