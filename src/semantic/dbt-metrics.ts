// The semantic files in dbt's words: semantic models, and metrics that are NULL where rows do not add up.
import type { Metric, Subject } from '../definition/semantic.ts'
import { type Guard, guardsOf, quoted, summed } from './formula.ts'
import type { YamlValue } from './yaml-text.ts'

/** A part of a file. */
export type Yaml = { readonly [key: string]: YamlValue | undefined }

/** MetricFlow wants a time for every measure: what has none is given the day the question is asked. Its name is no length of a period. */
const timeOf = ({ time }: Subject): { readonly name: string; readonly expr: string; readonly grain: string } => ({
  name: 'period',
  expr: time?.column ?? 'current_date',
  grain: time?.grains[0] ?? 'day',
})

/** @param model what its rows are read from, in dbt's words */
export const semanticModel = (subject: Subject, model: string): Yaml => {
  const time = timeOf(subject)
  const own = [...subject.dimensions.values()].filter(({ of, column }) => of === null && column !== time.expr)
  return {
    name: subject.name,
    description: subject.about,
    model,
    defaults: { agg_time_dimension: time.name },
    primary_entity: `one_${subject.name}`,
    dimensions: [
      { name: time.name, type: 'time', type_params: { time_granularity: time.grain }, expr: time.expr },
      ...own.map(({ name, column, about }) => ({
        name,
        type: 'categorical',
        expr: column,
        description: about === '' ? undefined : about,
      })),
    ],
    measures: [...guardMeasures(subject), ...[...subject.metrics.values()].flatMap((metric) => measuresOf(metric, subject))],
  }
}

const when = (conditions: readonly (string | null)[], value: string): string => {
  const held = conditions.filter((one) => one !== null)
  return held.length === 0 ? value : `case when ${held.join(' and ')} then ${value} end`
}

const measure = (name: string, agg: string, expr: string): Yaml => ({ name, agg, expr })

/** The parts of one metric: one aggregate each. */
const measuresOf = (metric: Metric, { metrics }: Subject): Yaml[] => {
  const { formula, name } = metric
  const where = metric.where === null ? null : `(${metric.where})`
  if (formula.kind === 'mean') {
    const { of, weight } = formula
    return [
      measure(`${name}_upper`, 'sum', when([where], `(${of})::numeric * (${weight})`)),
      measure(`${name}_lower`, 'sum', when([`(${of}) is not null`, where], `(${weight})`)),
    ]
  }
  if (formula.kind !== 'ratio') return [measure(`${name}_rows`, formula.kind, when([where], formula.of))]
  const [above, below] = [summed(metrics.get(formula.of)), summed(metrics.get(formula.to))]
  return [
    measure(`${name}_upper`, 'sum', when([`(${below.of}) is not null`, above.where, where], `(${above.of})`)),
    measure(`${name}_lower`, 'sum', when([`(${above.of}) is not null`, below.where, where], `(${below.of})`)),
  ]
}

const guardsOfSubject = (subject: Subject): readonly Guard[] => {
  const all = [...subject.metrics.values()].flatMap((metric) => guardsOf(metric, subject))
  return [...new Map(all.map((guard) => [guard.dimension, { ...guard, whole: wholeOf(subject, guard) }])).values()]
}

const wholeOf = ({ dimensions }: Subject, { dimension }: Guard): string | null => {
  const overlap = dimensions.get(dimension)?.overlap
  return overlap?.kind === 'whole' ? overlap.whole : null
}

const guardName = (subject: Subject, dimension: string, kind: 'values' | 'whole'): string =>
  `${subject.name}_${dimension}_${kind}`

const guardMeasures = (subject: Subject): Yaml[] =>
  guardsOfSubject(subject).flatMap(({ dimension, column, whole }) => [
    measure(guardName(subject, dimension, 'values'), 'count_distinct', column),
    ...(whole === null
      ? []
      : [measure(guardName(subject, dimension, 'whole'), 'sum', `case when ${column} = ${quoted(whole)} then 1 else 0 end`)]),
  ])

const helper = 'A part of other metrics; not for questions.'

const simple = (name: string, description: string, measured: string): Yaml => ({
  name,
  label: name.replaceAll('_', ' '),
  description,
  type: 'simple',
  type_params: { measure: measured },
})

const guardMetrics = (subject: Subject): Yaml[] =>
  guardMeasures(subject).map(({ name }) => simple(`count_${String(name)}`, helper, String(name)))

/** With the parts they are made of. */
export const metricsOfSubject = (subject: Subject): Yaml[] => [
  ...guardMetrics(subject),
  ...[...subject.metrics.values()].flatMap((metric) => metricsOf(metric, subject)),
]

/** A metric without conditions is simple; all others are put together from parts, in the rows of the answer. */
const metricsOf = (metric: Metric, subject: Subject): Yaml[] => {
  const { name, about, formula } = metric
  const guards = guardsOf(metric, subject)
  const isPlain = formula.kind !== 'mean' && formula.kind !== 'ratio'
  const description = `${about} Unit: ${metric.unit}.`
  if (isPlain && guards.length === 0) return [simple(name, description, `${name}_rows`)]
  const parts = isPlain ? [`${name}_rows`] : [`${name}_upper`, `${name}_lower`]
  const value = isPlain ? `part_${name}_rows` : `round(part_${name}_upper::numeric / nullif(part_${name}_lower, 0), 6)`
  const counted = guards.flatMap(({ dimension, whole }) => [
    guardName(subject, dimension, 'values'),
    ...(whole === null ? [] : [guardName(subject, dimension, 'whole')]),
  ])
  return [
    ...parts.map((part) => simple(`part_${part}`, helper, part)),
    {
      name,
      label: name.replaceAll('_', ' '),
      description,
      type: 'derived',
      type_params: {
        expr: when(
          guards.map((guard) => guardExpr(subject, guard)),
          value,
        ),
        metrics: [...parts.map((part) => ({ name: `part_${part}` })), ...counted.map((one) => ({ name: `count_${one}` }))],
      },
    },
  ]
}

const guardExpr = (subject: Subject, { dimension, whole }: Guard): string => {
  const one = `count_${guardName(subject, dimension, 'values')} <= 1`
  return whole === null ? one : `(${one} or count_${guardName(subject, dimension, 'whole')} = 0)`
}
