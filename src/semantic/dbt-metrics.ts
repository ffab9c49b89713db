// The semantic files in dbt's words: semantic models, and metrics that are NULL where rows do not add up.
import { type Metric, plainMetrics, type SemanticDimension, type Subject } from '../definition/semantic.ts'
import { metricWords } from '../definition/semantic-metric.ts'
import { decimalPlaces, type Guard, guardsOf, partOf, quoted, summed } from './formula.ts'
import type { YamlMap } from './yaml-text.ts'

/** MetricFlow requires a time for every measure: a subject without one gets the present day. The name `period` does not clash with MetricFlow's grains. */
const timeOf = ({ time }: Subject): { readonly name: string; readonly expr: string; readonly grain: string } => ({
  name: 'period',
  expr: time?.column ?? 'current_date',
  grain: time?.grains[0] ?? 'day',
})

/** @param model dbt's reference to the model that has the rows */
export const semanticModel = (subject: Subject, model: string): YamlMap => {
  const time = timeOf(subject)
  const all = [...subject.dimensions.values()]
  const own = all.filter(({ of, column }) => of === null && column !== time.expr)
  const roots = own.filter(({ name }) => all.some(({ of }) => of === name))
  return {
    name: subject.name,
    description: subject.about,
    model,
    defaults: { agg_time_dimension: time.name },
    primary_entity: `one_${subject.name}`,
    entities: [
      ...(subject.time === null ? [] : [{ name: entityOf(time.name), type: 'foreign', expr: time.expr }]),
      ...roots.map(({ name, column }) => ({ name: entityOf(name), type: 'foreign', expr: column })),
    ],
    dimensions: [
      { name: time.name, type: 'time', type_params: { time_granularity: time.grain }, expr: time.expr },
      ...own.map(categorical),
    ],
    measures: [...guardMeasures(subject), ...plainMetrics(subject).flatMap((metric) => madeOf(metric, subject).measures)],
  }
}

const entityOf = (dimension: string): string => `of_${dimension}`

const categorical = ({ name, column, about }: SemanticDimension): YamlMap => ({
  name,
  type: 'categorical',
  expr: column,
  description: about === '' ? undefined : about,
})

/** Tables with attributes of dimensions, each with the attributes that subjects use. */
export const attributeTables = (subjects: readonly Subject[]) => {
  const found = subjects.flatMap(({ dimensions }) =>
    [...dimensions.values()].flatMap((attribute) => {
      const root = dimensions.get(attribute.of ?? '')
      return root?.entity == null ? [] : [{ attribute, root, ...root.entity, table: attribute.table ?? root.entity.table }]
    }),
  )
  return Map.groupBy(found, ({ table }) => table)
}

/** A semantic model for each table of attributes, with the key that dimensions refer to as entity. */
export const attributeModels = (subjects: readonly Subject[], refTo: (table: string) => string): YamlMap[] =>
  [...attributeTables(subjects)].map(([table, found]) => ({
    name: table,
    description: 'Attributes to group figures by.',
    model: refTo(table),
    entities: [...new Map(found.map(({ root, key }) => [root.name, key]))].map(([name, key], at) => ({ name: entityOf(name), type: at === 0 ? 'primary' : 'unique', expr: key })), // biome-ignore format: one look
    dimensions: [...new Map(found.map(({ attribute }) => [attribute.name, attribute])).values()].map(categorical),
  }))

/** Fiscal periods for rows of any length: MetricFlow's custom granularities work only with days. */
export const fiscalModel = (model: string): YamlMap => ({
  name: 'calendar',
  description: 'Fiscal periods of a day.',
  model,
  entities: [{ name: entityOf('period'), type: 'primary', expr: 'date' }],
  dimensions: ['fiscal_quarter', 'fiscal_year'].map((name) => ({ name, type: 'categorical', expr: `${name}_name` })),
})

const when = (conditions: readonly (string | null)[], value: string): string => {
  const held = conditions.filter((one) => one !== null)
  return held.length === 0 ? value : `case when ${held.join(' and ')} then ${value} end`
}

type Measure = YamlMap & { readonly name: string }

const measure = (name: string, agg: string, expr: string): Measure => ({ name, agg, expr })

const rounded = (figure: string): string => `round((${figure})::numeric, ${decimalPlaces})`

const divided = (name: string, upper: string, lower: string): MadeOf => ({
  measures: [measure(`${name}_upper`, 'sum', upper), measure(`${name}_lower`, 'sum', lower)],
  value: rounded(`part_${name}_upper::numeric / nullif(part_${name}_lower, 0)`),
})

/** The measures of a figure (one aggregate each), and the expression over `part_<measure>` that combines them. */
interface MadeOf {
  readonly measures: readonly Measure[]
  readonly value: string
}

/** Without rows there is no data: a count is then NULL like a sum, not 0. */
const madeOf = (metric: Metric, subject: Subject): MadeOf => {
  const { formula, name } = metric
  const { metrics } = subject
  const where = metric.where === null ? null : `(${metric.where})`
  const rows = `part_${name}_rows`
  if (formula.kind === 'derived')
    return {
      measures: formula.parts.flatMap((one) => {
        const part = partOf(one, metric, subject)
        return part === undefined ? [] : madeOf({ ...part, name: `${name}_${one}` }, subject).measures
      }),
      value: rounded(
        formula.of.replaceAll(metricWords, (one) => {
          const isCount = metrics.get(one)?.formula.kind === 'count_distinct'
          return isCount ? `nullif(part_${name}_${one}_rows, 0)::numeric` : `part_${name}_${one}_rows::numeric`
        }),
      ),
    }
  if (formula.kind === 'mean') {
    const { of, weight } = formula
    return divided(name, when([where], `(${of})::numeric * (${weight})`), when([`(${of}) is not null`, where], `(${weight})`))
  }
  if (formula.kind === 'ratio') {
    const [above, below] = [summed(metrics.get(formula.of)), summed(metrics.get(formula.to))]
    return divided(
      name,
      when([`(${below.of}) is not null`, above.where, where], `(${above.of})`),
      when([`(${above.of}) is not null`, below.where, where], `(${below.of})`),
    )
  }
  if (formula.kind === 'quantile') {
    const percentile = { percentile: formula.at, use_discrete_percentile: false, use_approximate_percentile: false }
    const measures = [{ ...measure(`${name}_rows`, 'percentile', when([where], formula.of)), agg_params: percentile }]
    return { measures, value: rounded(rows) }
  }
  const counted = measure(`${name}_rows`, formula.kind, when([where], formula.of))
  if (formula.kind !== 'count_distinct') return { measures: [counted], value: rows }
  const there = measure(`${name}_there`, 'sum', when([where], '1'))
  return { measures: [counted, there], value: `case when part_${name}_there > 0 then ${rows} end` }
}

const guardsOfSubject = (subject: Subject): readonly Guard[] => {
  const all = plainMetrics(subject).flatMap((metric) => guardsOf(metric, subject))
  return [...new Map(all.map((guard) => [guard.dimension, { ...guard, whole: wholeOf(subject, guard) }])).values()]
}

const wholeOf = ({ dimensions }: Subject, { dimension }: Guard): string | null => {
  const overlap = dimensions.get(dimension)?.overlap
  return overlap?.kind === 'whole' ? overlap.whole : null
}

const guardName = (subject: Subject, dimension: string, kind: 'values' | 'whole'): string =>
  `${subject.name}_${dimension}_${kind}`

const guardMeasures = (subject: Subject): Measure[] =>
  guardsOfSubject(subject).flatMap(({ dimension, column, whole }) => [
    measure(guardName(subject, dimension, 'values'), 'count_distinct', column),
    ...(whole === null
      ? []
      : [measure(guardName(subject, dimension, 'whole'), 'sum', `case when ${column} = ${quoted(whole)} then 1 else 0 end`)]),
  ])

const helper = 'A part of other metrics; not for queries.'

const metricOf = (name: string, description: string, type: 'simple' | 'derived', type_params: YamlMap): YamlMap => ({
  ...{ name, label: name.replaceAll('_', ' '), description, type, type_params },
})

const simple = (name: string, description: string, measure: string): YamlMap => metricOf(name, description, 'simple', { measure })

const guardMetrics = (subject: Subject): YamlMap[] =>
  guardMeasures(subject).map(({ name }) => simple(`count_${name}`, helper, name))

/** The metrics of a subject, with their parts and guards. */
export const metricsOfSubject = (subject: Subject): YamlMap[] => [
  ...guardMetrics(subject),
  ...plainMetrics(subject).flatMap((metric) => dbtMetrics(metric, subject)),
]

/** A metric without guards is simple; any other is derived from parts in the rows of the answer. */
const dbtMetrics = (metric: Metric, subject: Subject): YamlMap[] => {
  const { name, about } = metric
  const guards = guardsOf(metric, subject)
  const description = `${about} Unit: ${metric.unit}.`
  const { measures, value } = madeOf(metric, subject)
  const parts = measures.map((one) => one.name).filter((one) => value.includes(`part_${one}`))
  if (guards.length === 0 && value === `part_${parts[0]}`) return [simple(name, description, `${name}_rows`)]
  const counted = guards.flatMap(({ dimension, whole }) => [
    guardName(subject, dimension, 'values'),
    ...(whole === null ? [] : [guardName(subject, dimension, 'whole')]),
  ])
  const expressions = guards.map((guard) => guardExpr(subject, guard))
  const metrics = [...parts.map((part) => ({ name: `part_${part}` })), ...counted.map((one) => ({ name: `count_${one}` }))]
  return [
    ...parts.map((part) => simple(`part_${part}`, helper, part)),
    metricOf(name, description, 'derived', { expr: when(expressions, value), metrics }),
  ]
}

const guardExpr = (subject: Subject, { dimension, whole }: Guard): string => {
  const one = `count_${guardName(subject, dimension, 'values')} <= 1`
  return whole === null ? one : `(${one} or count_${guardName(subject, dimension, 'whole')} = 0)`
}
