// What an assistant reads first, llms.txt: rules, pages, commands, pipelines and metrics.
import { type SemanticModel, type Subject, windowOf } from '../definition/semantic.ts'
import { table } from '../publish/dictionary.ts'
import { formulaWords } from './explain.ts'
import { additivity } from './formula.ts'

/** What the pages are made of. */
interface AssistantWords {
  readonly model: SemanticModel
  readonly commands: readonly { readonly usage: string; readonly description: string }[]
  readonly pipelines: readonly { readonly pipeline: string; readonly description: string; readonly file: string }[]
}

/** By this line a file is known as ours: others are not overwritten. */
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
    '- Commands that buy from the service (run, backfill, approve, schedule, worker, reports, release) need a person who asks for them. `millrace plan` spends nothing.',
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

/** Metrics that other tools are not given. */
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
