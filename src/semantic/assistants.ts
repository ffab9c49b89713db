// What an assistant reads first: llms.txt names the pages, AGENTS.md the commands, rules and metrics.
import type { SemanticModel } from '../definition/semantic.ts'
import { formulaWords } from './explain.ts'
import { additivity } from './formula.ts'

/** A command in words. */
export interface CommandWords {
  readonly usage: string
  readonly description: string
}

/** A pipeline in words. */
export interface PipelineWords {
  readonly pipeline: string
  readonly description: string
  readonly file: string
}

/** What the pages are made of. */
export interface AssistantWords {
  readonly model: SemanticModel
  readonly commands: readonly CommandWords[]
  readonly pipelines: readonly PipelineWords[]
}

/** By this line a file is known as ours: others are not overwritten. */
export const assistantsMark = '<!-- Made by `millrace docs`; do not edit. -->'

const figureRule = 'NULL means no data, never 0.'

/** In the form of llmstxt.org. */
export const llmsText = ({ model, pipelines }: AssistantWords): string =>
  `${[
    '# Millrace',
    '',
    assistantsMark,
    '',
    `> A warehouse in PostgreSQL that Millrace loads. Readers see the schema bi alone. ${figureRule}`,
    '',
    'Ask figures by metric with `millrace mcp` (tools list_metrics, explain_metric, query_metrics, coverage, freshness, restatements).',
    'It refuses what does not add up and says what to ask instead.',
    '',
    '## Pages',
    '',
    '- [Commands, rules and metrics](AGENTS.md): what can be run and asked',
    '- [Metrics](docs/metrics.md): how figures are defined, how to add one',
    '- [Data dictionary](docs/data-dictionary.md): every view and column of bi, and every metric',
    '- [For people who query it](docs/bi.md): history, as_of, marts',
    '',
    '## Pipelines',
    '',
    ...pipelines.map(({ pipeline, description, file }) => `- [${pipeline}](${file}): ${description}`),
    '',
    '## Subjects',
    '',
    ...[...model.subjects.values()].map(
      ({ name, about, metrics }) => `- ${name}: ${about} Metrics: ${[...metrics.keys()].join(', ')}.`,
    ),
  ].join('\n')}\n`

/** In the form of agents.md. */
export const agentsText = ({ model, commands, pipelines }: AssistantWords): string =>
  `${[
    '# For assistants that work here',
    '',
    assistantsMark,
    '',
    '## Rules',
    '',
    '- Figures: use `millrace mcp`, not SQL of your own. Where SQL is needed, read the schema bi alone, as a login of bi_reader.',
    `- ${figureRule} Do not add up what list_metrics names under never_over.`,
    '- Say with each figure whether it is final and what is missing; each answer has both.',
    '- Commands that buy from the service (run, backfill, approve, schedule, worker, reports, release) need a person who asks for them. `millrace plan` spends nothing.',
    '- Check changes of definitions and semantic files with `millrace check`; then `millrace docs` writes the generated pages.',
    '',
    '## Commands',
    '',
    ...commands.map(({ usage, description }) => `- \`millrace ${usage}\`: ${description}`),
    '',
    '## Pipelines',
    '',
    ...pipelines.map(({ pipeline, description, file }) => `- ${pipeline} (${file}): ${description}`),
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

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const row = (...cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`

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
      row('metric', 'meaning', 'unit', 'formula', 'does not add up over'),
      row('---', '---', '---', '---', '---'),
      ...[...subject.metrics.values()].map((metric) =>
        row(
          metric.name,
          metric.about,
          metric.unit,
          formulaWords(metric.formula) + (metric.where === null ? '' : `, where ${metric.where}`),
          [...metric.neverOver.keys()].join(', '),
        ),
      ),
      '',
      row('dimension', 'meaning', 'in a figure'),
      row('---', '---', '---'),
      ...[...subject.dimensions.values()].map(({ name, about }) => {
        const [first] = [...subject.metrics.values()].filter(({ neverOver }) => !neverOver.has(name))
        return row(name, about, first === undefined ? 'does not add up' : (additivity(first, subject)[name] ?? ''))
      }),
      '',
    ]),
  ]
    .join('\n')
    .trimEnd()}\n`
