// Reads semantic files from their folders, merges entries of the same subject, and checks that they fit together.
import { shipped } from '../core/shipped.ts'
import { folderFiles } from './folder-files.ts'
import { problemAt, problemsOf, readYaml } from './yaml-file.ts'
import { assertNoProblems, type Problem, sortProblems, suggest } from './problem.ts'
import { type Checking, checkParts, comparedOf, metricOf, keyPlace } from './semantic-metric.ts'
import { type DimensionFile, type SemanticFile, semanticSchema } from './semantic-schema.ts'
import { type Metric, type Overlap, partsOf, type SemanticDimension, type SemanticModel, type Subject } from './semantic.ts'

/** One file that is right in itself. */
interface Part extends Checking {
  readonly data: SemanticFile
}

/** Reports a metric's name that occurs twice: a question names a metric without its subject. */
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

const subjectOf = (parts: readonly Part[], known: readonly string[]): Subject | null => {
  const [first] = parts
  if (first === undefined) return null
  const said = Object.assign({}, ...parts.map(({ data }) => data)) as Partial<SemanticFile>
  const { about, view, grain } = said
  if (about === undefined || view === undefined || grain === undefined) {
    const others = known.filter((name) => name !== first.data.subject)
    const missing = ['about', 'view', 'grain'].filter((key) => !(key in said))
    first.wrong(
      ['subject'],
      `'${first.data.subject}' is a new subject and lacks ${missing.join(', ')}; to add to a known one, use its name.${suggest(first.data.subject, others)}`,
    )
    return null
  }
  const dimensions = new Map<string, SemanticDimension>()
  for (const part of parts)
    for (const [name, one] of Object.entries(part.data.dimensions)) dimensions.set(name, dimensionOf(name, one, part))
  const subject: Subject = {
    at: keyPlace(first.yaml, ['subject']),
    name: first.data.subject,
    about,
    view,
    shownBy: said.shown_by ?? [],
    grain,
    slice: said.slice ?? (said.pipeline === undefined ? [] : grain.filter((column) => column !== said.time?.column)),
    pipeline: said.pipeline ?? null,
    time: said.time ?? null,
    dimensions,
    metrics: new Map(),
  }
  const metrics = new Map<string, Metric>()
  for (const part of parts)
    for (const [name, one] of Object.entries(part.data.metrics).flatMap(comparedOf)) {
      const metric = metricOf(name, one, subject, part)
      if (metric !== null) metrics.set(name, metric)
    }
  checkDimensions(parts, subject)
  for (const { data, wrong } of parts)
    checkParts(new Map([...metrics].filter(([name]) => name in data.metrics)), metrics, subject, wrong)
  return { ...subject, metrics: new Map([...metrics].map(([name, metric]) => [name, inherited(metric, metrics)])) }
}

/** A metric made from sums inherits their restrictions: dimensions over which they do not add up, and periods. */
const inherited = (metric: Metric, metrics: ReadonlyMap<string, Metric>): Metric => {
  const sums = partsOf(metric.formula).flatMap((name) => metrics.get(name) ?? [])
  if (sums.length === 0) return metric
  const neverOver = new Map([...sums.flatMap((sum) => [...sum.neverOver]), ...metric.neverOver])
  const wholeOf = [...metric.wholeOf, ...sums.flatMap((sum) => sum.wholeOf)]
  return {
    ...metric,
    neverOver,
    wholeOf,
    grains: metric.grains.filter((grain) => sums.every(({ grains }) => grains.includes(grain))),
  }
}

/** Names of columns and tables that answers and their SQL use. */
const reserved = ['period', 'side', 'facts', 'answer', 'sides']

const dimensionOf = (name: string, one: DimensionFile, { yaml, wrong }: Checking): SemanticDimension => {
  const path = ['dimensions', name]
  const column = one?.column ?? name
  if (reserved.includes(name)) wrong(path, `'${name}' is reserved for answers; choose another name, with 'column'.`, 'key')
  if (one?.whole !== undefined && one.one !== undefined) wrong([...path, 'one'], "it has 'whole' and 'one'; keep one of the two.")
  if (one?.default !== undefined && one.whole === undefined)
    wrong([...path, 'default'], "'default' needs 'whole', the member that contains all others.")
  if (one?.key !== undefined && one.entity === undefined)
    wrong([...path, 'key'], "'key' needs 'entity', the table it is the key of.")
  return {
    at: keyPlace(yaml, path),
    name,
    about: one?.about ?? '',
    column,
    synonyms: one?.synonyms ?? [],
    overlap: overlapOf(one),
    values: valuesOf(one?.values),
    type: one?.type ?? 'text',
    entity: one?.entity === undefined ? null : { table: one.entity, key: one.key ?? column },
    of: one?.of ?? null,
    table: one?.table ?? null,
  }
}

const valuesOf = (values: NonNullable<DimensionFile>['values']): SemanticDimension['values'] => {
  if (typeof values !== 'string') return values?.map(String) ?? null
  const [table = '', column = ''] = values.split('.')
  return { table, column }
}

const overlapOf = (one: DimensionFile): Overlap => {
  if (one?.whole !== undefined) return { kind: 'whole', whole: String(one.whole), default: one.default ?? 'whole' }
  return one?.one === undefined ? { kind: 'none' } : { kind: 'one', value: String(one.one) }
}

/** Every column of the grain must be a dimension or the time: else a sum would run over its values unnoticed. */
const checkDimensions = (parts: readonly Part[], { grain, time, dimensions }: Subject): void => {
  const withEntity = [...dimensions.values()].filter(({ entity }) => entity !== null).map(({ name }) => name)
  const reachable = new Set([...dimensions.values()].filter(({ of }) => of === null).map(({ column }) => column))
  for (const { data, wrong } of parts) {
    for (const [at, column] of grain.entries())
      if (data.grain !== undefined && column !== time?.column && !reachable.has(column))
        wrong(
          ['grain', at],
          `'${column}' is neither the time nor a dimension; add it under dimensions, else sums would run over it unnoticed.`,
        )
    for (const [name, one] of Object.entries(data.dimensions))
      if (one?.of !== undefined && dimensions.get(one.of)?.entity == null)
        wrong(['dimensions', name, 'of'], `'${one.of}' is not a dimension with an entity.${suggest(one.of, withEntity)}`)
  }
}

export const shippedSemantics = shipped('semantic')

/** The valid part of the model and every mistake, from all folders; a later folder's entries replace earlier ones of the same name. */
export const readSemantics = async (folders: readonly string[]) =>
  parseSemantics(await folderFiles([shippedSemantics, ...folders], /\.ya?ml$/))

/** The same without a disk. */
export const parseSemantics = (files: readonly { readonly file: string; readonly text: string }[]) => {
  const problems: Problem[] = []
  const parts: Part[] = []
  for (const { file, text } of files) {
    const { yaml, problems: found } = readYaml(file, text)
    problems.push(...found)
    if (yaml === null) continue
    const checked = semanticSchema.safeParse(yaml.value)
    if (checked.success) parts.push({ yaml, data: checked.data, wrong: (...at) => void problems.push(problemAt(yaml, ...at)) })
    else problems.push(...problemsOf(checked.error.issues, semanticSchema, yaml))
  }
  // A later part's entries replace earlier ones.
  const bySubject = Map.groupBy(parts, ({ data }) => data.subject)
  const known = [...bySubject.keys()]
  const subjects = new Map(
    [...bySubject].flatMap(([name, own]) => {
      const subject = subjectOf(own, known)
      return subject === null ? [] : [[name, subject] as const]
    }),
  )
  problems.push(...repeated([...subjects.values()]))
  const model: SemanticModel = { subjects }
  return { model, problems: sortProblems(problems), files: files.map(({ file }) => file) }
}

/** Throws DEFINITION with every problem. */
export const loadSemantics = async (folders: readonly string[]) => assertNoProblems(await readSemantics(folders)).model
