// The data dictionary for readers of bi, made from the definitions and the headers of the marts.
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { joinsOf } from './comments.ts'
import { type DescribedView, describedViews } from './view-columns.ts'

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const row = (...cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`
/** In Markdown. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string[] => [row(...head), row(...head.map(() => '---')), ...rows.map((one) => row(...one))] // biome-ignore format: one look

/** Markdown, the same for the same input. */
export const dataDictionary = (definitions: readonly Definition[], marts: readonly Mart[]): string => {
  const published = definitions.filter(({ publish }) => publish).sort((a, b) => a.pipeline.localeCompare(b.pipeline))
  const sorted = [...marts].sort((a, b) => a.name.localeCompare(b.name))
  return `${[
    '# Data dictionary',
    '',
    'Made by `millrace docs` from the definitions and the marts; do not edit. NULL means no data, never 0.',
    '',
    '## Which view answers which question',
    '',
    ...questions(sorted),
    '## Relationships',
    '',
    ...diagram(published, sorted),
    '',
    '## Where it comes from',
    '',
    ...lineage(published, sorted),
    // A history has the columns of its facts.
    ...describedViews(published, sorted).flatMap((view) =>
      view.of === 'history' ? [] : ['', `## bi.${view.name}`, '', ...section(view, published, sorted)],
    ),
  ].join('\n')}\n`
}

/** By topic, in the order of names: what each view is for, in one line. */
const questions = (marts: readonly Mart[]): string[] =>
  [...Map.groupBy(marts, ({ topic }) => topic)]
    .sort(([a], [b]) => a.localeCompare(b))
    .flatMap(([topic, some]) => [
      `### ${topic}`,
      '',
      ...table(
        ['question', 'view'],
        some.map(({ question, name }) => [question, `\`bi.${name}\``]),
      ),
      '',
    ])

/** Which conditions use an index; empty where the key is the only one. */
const lookedUpBy = ({ key, indexes }: Definition): string[] => {
  const others = indexes.map(
    ({ columns, include }) =>
      `${columns.join(', ')}${include.length === 0 ? '' : ` (which also holds ${include.join(', ')}, so that queries read only the index)`}`,
  )
  return others.length === 0 ? [] : [`Indexed by the key (${key.join(', ')}),`, `and by ${others.join('; and by ')}.`, '']
}

const section = (view: DescribedView, definitions: readonly Definition[], marts: readonly Mart[]): string[] => {
  const { name, about, columns } = view
  const definition = definitions.find(({ pipeline }) => pipeline === name)
  const mart = marts.find((one) => one.name === name)
  if (definition === undefined)
    return [
      ...(mart === undefined
        ? [about]
        : [
            mart.purpose,
            '',
            mart.grain,
            `For example: ${mart.question}${mart.summaryOf === null ? '' : ' This view is a table, which each load keeps up to date.'}`,
          ]),
      '',
      ...table(
        ['column', 'meaning'],
        columns.map((one) => [one.name, one.about]),
      ),
    ]
  return [
    about,
    '',
    `Every revision: \`bi.${name}_history\` (\`valid_from\`, \`valid_to\`, \`is_current\`). As of a moment: \`bi.${name}_as_of(timestamptz)\`.`,
    '',
    ...lookedUpBy(definition),
    ...table(
      ['column', 'type', 'meaning'],
      columns.map(({ type, isNullable, ...one }) => [one.name, `${type}${isNullable ? '' : ', not null'}`, one.about]),
    ),
  ]
}

const diagram = (definitions: readonly Definition[], marts: readonly Mart[]): string[] => {
  const facts = [
    ...definitions.map((definition) => ({ name: definition.pipeline, key: definition.key, definition })),
    ...marts.flatMap(({ name, key, summaryOf }) => {
      const definition = definitions.find(({ pipeline }) => pipeline === summaryOf)
      return definition === undefined ? [] : [{ name, key, definition }]
    }),
  ]
  const lines = facts.flatMap(({ name, key, definition }) =>
    joinsOf(definition)
      .filter(({ column }) => key.includes(column))
      .sort((a, b) => key.indexOf(a.column) - key.indexOf(b.column))
      .map(({ column, table }) => `  ${table} ||--o{ ${name} : ${column}`),
  )
  return ['```mermaid', 'erDiagram', ...lines, '```']
}

const lineage = (definitions: readonly Definition[], marts: readonly Mart[]): string[] => {
  const lines = definitions.flatMap(({ pipeline, source, version }) => [
    `  ${source.replaceAll(/[^a-z0-9]/g, '_')}["${source}"] --> data_${pipeline}["data.${pipeline}_v${version}"]`,
    `  data_${pipeline} --> ${pipeline}["bi.${pipeline}"]`,
  ])
  const reads = marts.flatMap(({ name, reads: names }) =>
    names.map((from) => `  ${from.replace('.', '_')}["${from.includes('.') ? from : `bi.${from}`}"] --> ${name}["bi.${name}"]`),
  )
  return ['```mermaid', 'flowchart LR', ...lines, ...reads, '```']
}
