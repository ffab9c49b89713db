// Semantic files put together: entries of the same subject merged, and what they must be to each other.
import { suggest } from './nearest.ts'
import type { Problem } from './problem.ts'
import type { Formula, Metric, Overlap, SemanticDimension, SemanticModel, Subject, EntryPlace } from './semantic.ts'
import type { DimensionFile, MetricFile, SemanticFile } from './semantic-schema.ts'
import type { Path, YamlFile } from './yaml-file.ts'

interface Part {
  readonly yaml: YamlFile
  readonly data: SemanticFile
}

/** Collects problems at their places. */
type Wrong = (yaml: YamlFile, path: Path, message: string, part?: 'key' | 'value') => void

/** Subjects of all parts; a later part's entries replace earlier ones. */
export const buildModel = (parts: readonly Part[]): { model: SemanticModel; problems: readonly Problem[] } => {
  const problems: Problem[] = []
  const wrong: Wrong = (yaml, path, message, part = 'value') =>
    void problems.push({ file: yaml.file, ...yaml.place(path, part), message })
  const names = [...new Set(parts.map(({ data }) => data.subject))]
  const subjects = new Map<string, Subject>()
  for (const name of names) {
    const subject = subjectOf(
      parts.filter(({ data }) => data.subject === name),
      names,
      wrong,
    )
    if (subject !== null) subjects.set(name, subject)
  }
  problems.push(...repeated([...subjects.values()]))
  return { model: { subjects }, problems }
}

/** A metric is asked for by its name alone. */
const repeated = (subjects: readonly Subject[]): Problem[] => {
  const seen = new Map<string, Subject>()
  return subjects.flatMap((subject) =>
    [...subject.metrics.values()].flatMap(({ name, at }) => {
      const first = seen.get(name)
      if (first === undefined) seen.set(name, subject)
      return first === undefined
        ? []
        : [{ ...at, message: `'${name}' is a metric of ${first.name} already; give one of the two another name.` }]
    }),
  )
}

const placeOf = (yaml: YamlFile, path: Path): EntryPlace => ({ file: yaml.file, ...yaml.place(path, 'key') })

const subjectOf = (parts: readonly Part[], known: readonly string[], wrong: Wrong): Subject | null => {
  const [first] = parts
  if (first === undefined) return null
  const said = Object.assign({}, ...parts.map(({ data }) => defined(data))) as Partial<SemanticFile>
  const { about, view, grain } = said
  if (about === undefined || view === undefined || grain === undefined) {
    const others = known.filter((name) => name !== first.data.subject)
    const missing = ['about', 'view', 'grain'].filter((key) => !(key in said))
    wrong(
      first.yaml,
      ['subject'],
      `'${first.data.subject}' is a new subject and lacks ${missing.join(', ')}; to add to a known one, use its name.${suggest(first.data.subject, others)}`,
    )
    return null
  }
  const dimensions = new Map<string, SemanticDimension>()
  for (const { yaml, data } of parts)
    for (const [name, one] of Object.entries(data.dimensions)) dimensions.set(name, dimensionOf(name, one, yaml, wrong))
  const subject: Subject = {
    at: placeOf(first.yaml, ['subject']),
    name: first.data.subject,
    about,
    view,
    shownBy: said.shown_by ?? [],
    grain,
    pipeline: said.pipeline ?? null,
    time: said.time ?? null,
    dimensions,
    metrics: new Map(),
  }
  const metrics = new Map<string, Metric>()
  for (const { yaml, data } of parts)
    for (const [name, one] of Object.entries(data.metrics)) {
      const metric = metricOf(name, one, subject, yaml, wrong)
      if (metric !== null) metrics.set(name, metric)
    }
  checkDimensions(parts, subject, wrong)
  for (const { yaml, data } of parts) checkRatios(data, yaml, metrics, wrong)
  return { ...subject, metrics: new Map([...metrics].map(([name, metric]) => [name, inherited(metric, metrics)])) }
}

/** What keeps a sum from adding up keeps a ratio of it, too. */
const inherited = (metric: Metric, metrics: ReadonlyMap<string, Metric>): Metric => {
  const { formula } = metric
  if (formula.kind !== 'ratio') return metric
  const sums = [formula.to, formula.of].flatMap((name) => metrics.get(name) ?? [])
  const neverOver = new Map([...sums.flatMap((sum) => [...sum.neverOver]), ...metric.neverOver])
  return { ...metric, neverOver, grains: metric.grains.filter((grain) => sums.every(({ grains }) => grains.includes(grain))) }
}

const defined = (data: SemanticFile): Partial<SemanticFile> =>
  Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined))

/** Columns that answers and their statements make. */
const reserved = ['period', 'side', 'facts', 'answer', 'sides']

const dimensionOf = (name: string, one: DimensionFile, yaml: YamlFile, wrong: Wrong): SemanticDimension => {
  const path = ['dimensions', name]
  const column = one?.column ?? name
  if (reserved.includes(name))
    wrong(yaml, path, `'${name}' is a name that answers use themselves; choose another, with 'column'.`, 'key')
  if (one?.whole !== undefined && one.one !== undefined)
    wrong(yaml, [...path, 'one'], "it has 'whole' and 'one'; keep one of the two.")
  if (one?.default !== undefined && one.whole === undefined)
    wrong(yaml, [...path, 'default'], "'default' needs 'whole', the member that holds all others.")
  if (one?.key !== undefined && one.entity === undefined)
    wrong(yaml, [...path, 'key'], "'key' needs 'entity', the table it is the key of.")
  return {
    at: placeOf(yaml, path),
    name,
    about: one?.about ?? '',
    column,
    synonyms: one?.synonyms ?? [],
    overlap: overlapOf(one),
    entity: one?.entity === undefined ? null : { table: one.entity, key: one.key ?? column },
    of: one?.of ?? null,
  }
}

const overlapOf = (one: DimensionFile): Overlap => {
  if (one?.whole !== undefined) return { kind: 'whole', whole: String(one.whole), default: one.default ?? 'whole' }
  return one?.one === undefined ? { kind: 'none' } : { kind: 'one', value: String(one.one) }
}

/** Nothing that makes rows many may be hidden: every column of the grain can be asked by or is the time. */
const checkDimensions = (parts: readonly Part[], { grain, time, dimensions }: Subject, wrong: Wrong): void => {
  const reachable = new Set([...dimensions.values()].filter(({ of }) => of === null).map(({ column }) => column))
  for (const { yaml, data } of parts) {
    for (const [at, column] of grain.entries())
      if (data.grain !== undefined && column !== time?.column && !reachable.has(column))
        wrong(
          yaml,
          ['grain', at],
          `'${column}' is neither the time nor a dimension; add it under dimensions, so that nobody sums over it unseen.`,
        )
    for (const [name, one] of Object.entries(data.dimensions))
      if (one?.of !== undefined && dimensions.get(one.of)?.entity == null)
        wrong(
          yaml,
          ['dimensions', name, 'of'],
          `'${one.of}' is no dimension with an entity.${suggest(one.of, entityNames(dimensions))}`,
        )
  }
}

const entityNames = (dimensions: Subject['dimensions']): string[] =>
  [...dimensions.values()].filter(({ entity }) => entity !== null).map(({ name }) => name)

const formulaKinds = ['sum', 'count_distinct', 'min', 'max', 'mean', 'ratio'] as const

const metricOf = (name: string, one: MetricFile, subject: Subject, yaml: YamlFile, wrong: Wrong): Metric | null => {
  const path = ['metrics', name]
  const kinds = formulaKinds.filter((kind) => one[kind] !== undefined)
  const [kind] = kinds
  if (kind === undefined || kinds.length > 1) {
    const found = kinds.length === 0 ? 'no formula' : `${kinds.length} formulas (${kinds.join(', ')})`
    wrong(yaml, path, `${name} has ${found}; expected one of ${formulaKinds.join(', ')}.`, 'key')
    return null
  }
  const places = [...subject.dimensions.keys(), ...(subject.time === null ? [] : [subject.time.column])]
  for (const dimension of Object.keys(one.never_over ?? {}))
    if (!places.includes(dimension))
      wrong(
        yaml,
        [...path, 'never_over', dimension],
        `'${dimension}' is neither a dimension nor the time of ${subject.name}.${suggest(dimension, places)}`,
        'key',
      )
  const allowed = subject.time?.grains ?? []
  for (const [at, grain] of (one.grains ?? []).entries())
    if (!allowed.includes(grain))
      wrong(
        yaml,
        [...path, 'grains', at],
        `'${grain}' is no length of period of ${subject.name}; there are ${allowed.join(', ') || 'none'}.`,
      )
  return {
    at: placeOf(yaml, path),
    name,
    about: one.about,
    formula: formulaOf(kind, one),
    where: one.where ?? null,
    unit: one.unit,
    format: one.format,
    synonyms: one.synonyms ?? [],
    neverOver: new Map(Object.entries(one.never_over ?? {})),
    grains: one.grains ?? allowed,
  }
}

const formulaOf = (kind: (typeof formulaKinds)[number], one: MetricFile): Formula => {
  if (one.ratio !== undefined) return { kind: 'ratio', ...one.ratio }
  if (one.mean !== undefined) return { kind: 'mean', ...one.mean }
  return kind === 'ratio' || kind === 'mean' ? { kind: 'sum', of: '1' } : { kind, of: one[kind] ?? '1' }
}

const checkRatios = ({ metrics: said }: SemanticFile, yaml: YamlFile, metrics: Subject['metrics'], wrong: Wrong): void => {
  const sums = [...metrics.values()].filter(({ formula }) => formula.kind === 'sum').map(({ name }) => name)
  for (const [name, { ratio }] of Object.entries(said))
    for (const part of ['of', 'to'] as const)
      if (ratio !== undefined && !sums.includes(ratio[part]))
        wrong(yaml, ['metrics', name, 'ratio', part], `'${ratio[part]}' is no sum of this subject.${suggest(ratio[part], sums)}`)
}
