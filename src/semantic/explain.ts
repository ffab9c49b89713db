// The model in words: the list of metrics and their meaning; the chapter for people, and llms.txt for assistants.
import { type Formula, hasAsOf, type Metric, type SemanticModel, type Subject, windowOf } from '../definition/semantic.ts'
import { table } from '../publish/dictionary.ts'
import { additivity, formulaSql, guardedSql } from './formula.ts'
import { allMetrics, findMetric } from './query.ts'

/** @param search words that a line must all contain; empty: every line */
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

/** One line of the list; `never_over`: dimensions over which the metric does not add up. */
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
const formulaWords = ({ formula, where }: Metric): string => wordsOf(formula) + (where === null ? '' : `, where ${where}`)

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
    /** Gives NULL instead of a wrong sum over any rows; null: the metric needs other rows of the answer. */
    guarded_sql: windowOf(metric) === null ? guardedSql(metric, subject) : null,
    view: `bi.${subject.view}`,
    one_row: subject.grain,
    adds_up_over: additivity(metric, subject),
    dimensions: [...subject.dimensions.values()].map(({ name: dimension, about, synonyms }) => ({ dimension, about, synonyms })),
    knows_the_past: hasAsOf(subject),
    finality: subject.pipeline === null ? null : `bi.${subject.pipeline}.is_final: the month is older than the look-back`,
    defined_at: `${metric.at.file.split(/[\\/]/).slice(-2).join('/')}:${metric.at.line}`,
  }
}

/** The input of the pages. */
interface AssistantWords {
  readonly model: SemanticModel
  readonly commands: readonly { readonly usage: string; readonly description: string }[]
  readonly pipelines: readonly { readonly pipeline: string; readonly description: string; readonly file: string }[]
}

/** Marks a file as generated: files without this line are not overwritten. */
export const assistantsMark = '<!-- Made by `millrace docs`; do not edit. -->'

/** In the form of llmstxt.org. Its links are of pages that `millrace docs` writes. */
export const llmsText = ({ model, commands, pipelines }: AssistantWords): string =>
  `${[
    '# Millrace',
    '',
    assistantsMark,
    '',
    '> A warehouse in PostgreSQL that Millrace loads. Readers see the schema bi alone. NULL means no data, never 0.',
    '',
    '- Figures: use `millrace mcp` (tools list_metrics, explain_metric, query_metrics, coverage, freshness, restatements), not SQL of your own. It refuses what does not add up.',
    '- Where SQL is needed, read the schema bi alone, as a login of bi_reader. Do not add up what list_metrics names under never_over.',
    '- Say with each figure whether it is final and what is missing; each answer has both.',
    '- Commands that buy from the service (run, backfill, approve, schedule, worker, reports, release) need a person to request them. `millrace plan` spends nothing.',
    '- Check changes of definitions and semantic files with `millrace check`; then `millrace docs` writes the generated pages.',
    '',
    '## Pages',
    '',
    '- [Data dictionary](docs/data-dictionary.md): every view and column of bi',
    '- [Metrics](docs/metrics-dictionary.md): every metric with unit, formula and what it does not add up over',
    '',
    '## Commands',
    '',
    ...commands.map(({ usage, description }) => `- \`millrace ${usage}\`: ${description}`),
    '',
    '## Pipelines',
    '',
    ...pipelines.map(({ pipeline, description, file }) => `- [${pipeline}](${file}): ${description}`),
    '',
    '## Metrics',
    '',
    ...[...model.subjects.values()].flatMap((subject) => [
      `### ${subject.name}`,
      '',
      `${subject.about} View bi.${subject.view}. By: ${[...subject.dimensions.keys()].join(', ')}.`,
      '',
      ...[...subject.metrics.values()].map(
        ({ name, about, unit, neverOver }) =>
          `- ${name} (${unit}): ${about}${neverOver.size === 0 ? '' : ` Does not add up over ${[...neverOver.keys()].join(', ')}.`}`,
      ),
      '',
    ]),
  ]
    .join('\n')
    .trimEnd()}\n`

/** A note about metrics that are not exported to other tools. */
const elsewhere = ({ metrics }: Subject): string[] => {
  const names = [...metrics.values()].flatMap((metric) => (windowOf(metric) === null ? [] : [metric.name]))
  if (names.length === 0) return []
  return ['', `Not in dbt, Lightdash and Superset, where a missing row would silently make it wrong: ${names.join(', ')}.`]
}

/** A chapter of the data dictionary. */
export const metricsChapter = ({ subjects }: SemanticModel): string =>
  `${[
    '# Metrics',
    '',
    'What figures mean, from semantic/*.yaml ([metrics](metrics.md)).',
    '',
    ...[...subjects.values()].flatMap((subject) => [
      `## ${subject.name}`,
      '',
      `${subject.about} View \`bi.${subject.view}\`.`,
      '',
      ...table(
        ['metric', 'meaning', 'unit', 'formula', 'does not add up over'],
        [...subject.metrics.values()].map((metric) => [
          metric.name,
          metric.about,
          metric.unit,
          formulaWords(metric),
          metric.formula.kind === 'ratio' && metric.neverOver.size > 0
            ? 'as its two sums'
            : [...metric.neverOver.keys()].join(', '),
        ]),
      ),
      ...elsewhere(subject),
      '',
      ...table(
        ['dimension', 'meaning', 'does a metric add up over it?'],
        [...subject.dimensions.values()].map(({ name, about }) => {
          const [first] = [...subject.metrics.values()].filter(({ neverOver }) => !neverOver.has(name))
          return [name, about, first === undefined ? 'does not add up' : (additivity(first, subject)[name] ?? '')]
        }),
      ),
      '',
    ]),
  ]
    .join('\n')
    .trimEnd()}\n`
