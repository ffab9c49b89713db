// The data contract of what `bi` publishes, in the Open Data Contract Standard (ODCS 3.0.2): tables, columns, keys, and by when a month is there.
import { columnTypes } from '../core/column-types.ts'
import type { Column, Definition } from '../core/types.ts'
import { columnComment, grainOf } from '../publish/comments.ts'
import { type YamlMap, yamlFile } from './yaml-text.ts'

/** One contract over every published pipeline, the same for the same definitions. */
export const dataContract = (definitions: readonly Definition[]): string => {
  const published = definitions.filter(({ publish }) => publish)
  return yamlFile({
    apiVersion: 'v3.0.2',
    kind: 'DataContract',
    id: 'millrace-bi',
    name: 'Views of bi',
    version: published.map(({ pipeline, version }) => `${pipeline}-${version}`).join('.') || '0',
    status: 'active',
    description: {
      purpose: 'What was loaded from the sources of the definitions: complete by period, with every former value kept.',
      usage: 'Read the views of the schema bi. A period that is not loaded is not zero: see bi.coverage.',
    },
    schema: published.map(tableOf),
    slaProperties: published.flatMap(promises),
  })
}

const tableOf = (definition: Definition): YamlMap => ({
  name: definition.pipeline,
  physicalName: `bi.${definition.pipeline}`,
  physicalType: 'view',
  logicalType: 'object',
  description: `${definition.description} ${grainOf(definition)}`,
  properties: definition.columns.map((column) => propertyOf(column, definition.key.indexOf(column.name))),
})

/** @param place of it in the key; -1: it is none of it */
const propertyOf = (column: Column, place: number): YamlMap => ({
  name: column.name,
  logicalType: columnTypes[column.type].contract,
  physicalType: column.type,
  description: columnComment(column),
  required: place >= 0 || !column.nullable,
  ...(place < 0 ? {} : { primaryKey: true, primaryKeyPosition: place + 1 }),
  ...(columnTypes[column.type].isList ? { items: { name: column.name, logicalType: 'string' } } : {}),
})

const promises = ({ pipeline, expect, schedule }: Definition): YamlMap[] => [
  ...(expect === null
    ? []
    : [
        {
          property: 'latency',
          value: expect.monthBy,
          unit: 'd',
          element: `${pipeline}._loaded_at`,
          description: `A month is loaded by day ${expect.monthBy} of the next one.`,
        },
      ]),
  ...(schedule === null
    ? []
    : [
        {
          property: 'frequency',
          value: 1,
          unit: 'd',
          element: pipeline,
          scheduler: 'cron',
          schedule: schedule.cron,
          description: `Looked for new and restated values at these times of ${schedule.timeZone}.`,
        },
      ]),
]
