// The model in words, for people and assistants: which metrics there are and what each means.
import { type Formula, knowsThePast, type Metric, type SemanticModel, type Subject, windowOf } from '../definition/semantic.ts'
import { allMetrics, findMetric } from './query.ts'
import { additivity, formulaSql, guardedSql } from './formula.ts'

/** @param search words of which the line must hold every one; empty: all */
export const listMetrics = (
  model: SemanticModel,
  { subject, search }: { subject?: string | undefined; search?: string | undefined },
) => {
  const words = (search ?? '')
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  return allMetrics(model)
    .filter((one) => subject === undefined || one.subject.name === subject)
    .map(({ metric, subject: of }) => lineOf(metric, of))
    .filter((line) =>
      words.every((word) => [line.metric, line.subject, line.about, ...line.synonyms].join(' ').toLowerCase().includes(word)),
    )
}

/** One line of a list; `never_over`: what it does not add up over. */
const lineOf = (metric: Metric, subject: Subject) => ({
  metric: metric.name,
  subject: subject.name,
  about: metric.about,
  unit: metric.unit,
  synonyms: metric.synonyms,
  by: [...subject.dimensions.keys()],
  grains: metric.grains,
  never_over: [...metric.neverOver.keys()],
})

/** `sum of clicks`, `visits / visitors` (of the sums), with its condition. */
export const formulaWords = ({ formula, where }: Metric): string => wordsOf(formula) + (where === null ? '' : `, where ${where}`)

const wordsOf = (formula: Formula): string => {
  if (formula.kind === 'ratio') return `${formula.of} / ${formula.to}`
  if (formula.kind === 'mean') return `average of ${formula.of} weighted by ${formula.weight}`
  if (formula.kind === 'quantile')
    return formula.at === 0.5 ? `median of ${formula.of}` : `${formula.at}-quantile of ${formula.of}`
  if (formula.kind === 'derived') return formula.of
  if (formula.kind === 'share') return `${formula.of} / that of all ${formula.over}`
  if (formula.kind === 'cumulative')
    return `${formula.of}, added up ${formula.each === null ? 'period by period' : `from the first period of each ${formula.each}`}`
  if (formula.kind === 'rolling') return `${formula.of} of ${formula.periods} periods together`
  const words = { sum: 'sum', count_distinct: 'number of distinct values', min: 'smallest', max: 'largest' }
  return `${words[formula.kind]} of ${formula.of}`
}

/** Everything that is known of one metric. Throws QueryRefusedError where there is none of that name. */
export const explainMetric = (model: SemanticModel, name: string) => {
  const { metric, subject } = findMetric(model, name)
  return {
    ...lineOf(metric, subject),
    format: metric.format,
    formula: formulaWords(metric),
    formula_sql: formulaSql(metric, subject),
    /** NULL instead of a wrong sum, whatever rows meet; null: it needs other rows of the answer. */
    guarded_sql: windowOf(metric) === null ? guardedSql(metric, subject) : null,
    view: `bi.${subject.view}`,
    one_row: subject.grain,
    adds_up_over: additivity(metric, subject),
    dimensions: [...subject.dimensions.values()].map(({ name: dimension, about, synonyms }) => ({ dimension, about, synonyms })),
    knows_the_past: knowsThePast(subject),
    finality: subject.pipeline === null ? null : `bi.${subject.pipeline}.is_final: the month is behind the look-back`,
    defined_at: `${metric.at.file.split(/[\\/]/).slice(-2).join('/')}:${metric.at.line}`,
  }
}
