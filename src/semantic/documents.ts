// Every file that is made from the semantic files, by its path; those of Lightdash here: a file a subject, its metrics NULL where rows do not add up.
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import type { FigureFormat, SemanticDimension, SemanticModel, Subject } from '../definition/semantic.ts'
import { metricsChapter } from './assistants.ts'
import { dataContract } from './data-contract.ts'
import { dbtFiles } from './dbt.ts'
import { guardedSql } from './formula.ts'
import { yamlFile } from './yaml-text.ts'

/** Below the folder of documents. */
export const semanticDocuments = (
  model: SemanticModel,
  definitions: readonly Definition[],
  marts: readonly Mart[],
): ReadonlyMap<string, string> => {
  const below = (folder: string, files: ReadonlyMap<string, string>): [string, string][] =>
    [...files].map(([path, text]) => [`${folder}/${path}`, text])
  return new Map([
    ['metrics-dictionary.md', metricsChapter(model)],
    ['data-contract.yaml', dataContract(definitions)],
    ...below('dbt', dbtFiles(model, definitions, marts)),
    ...below('lightdash', lightdashFiles(model)),
  ])
}

/** Files by their path in a Lightdash project. */
const lightdashFiles = ({ subjects }: SemanticModel): ReadonlyMap<string, string> =>
  new Map([
    ['lightdash.config.yml', yamlFile({ warehouse: { type: 'postgres' }, spotlight: { default_visibility: 'show' } })],
    ...[...subjects.values()].map((subject): [string, string] => [
      `lightdash/models/${subject.name}.yml`,
      yamlFile(modelOf(subject)),
    ]),
  ])

const column = (name: string): string => `\${TABLE}.${name}`

const modelOf = (subject: Subject) => {
  const { name, view, about, time, dimensions, metrics } = subject
  return {
    type: 'model',
    name,
    description: about,
    sql_from: `bi.${view}`,
    dimensions: [
      ...(time === null
        ? []
        : [
            {
              name: time.column,
              type: 'date',
              sql: column(time.column),
              time_intervals: time.grains.map((grain) => grain.toUpperCase()),
            },
          ]),
      ...[...dimensions.values()].filter(({ of, column: own }) => of === null && own !== time?.column).map(dimensionOf),
    ],
    metrics: Object.fromEntries(
      [...metrics.values()].map((metric) => [
        metric.name,
        {
          type: 'number',
          sql: guardedSql(metric, subject),
          description: `${metric.about} Unit: ${metric.unit}.`,
          format: formats[metric.format],
        },
      ]),
    ),
  }
}

const dimensionOf = ({ name, column: own, about }: SemanticDimension) => ({
  name,
  type: 'string',
  sql: column(own),
  description: about === '' ? undefined : about,
})

const formats: Readonly<Record<FigureFormat, string | undefined>> = {
  count: '#,##0',
  decimal: '#,##0.00',
  share: '0.0%',
  money: '[$$]#,##0',
}
