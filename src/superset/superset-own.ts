// What people added to a dataset in Superset: an import replaces datasets as a whole, so that it is read before and put into the bundle.
import { z } from 'zod'
import type { YamlMap } from '../semantic/yaml-text.ts'
import { certifiedBy, type datasetOf } from './superset-dataset.ts'

/** Superset writes it as JSON text. */
const extra = z
  .string()
  .nullish()
  .transform((text) => parsed(text))
const words = z.string().nullish()
const flag = z.boolean().nullish()

const column = z.object({
  column_name: z.string(),
  verbose_name: words,
  description: words,
  expression: words,
  type: words,
  is_dttm: flag,
  filterable: flag,
  groupby: flag,
  python_date_format: words,
  extra,
})
const metric = z.object({
  metric_name: z.string(),
  verbose_name: words,
  expression: z.string(),
  description: words,
  d3format: words,
  metric_type: words,
  warning_text: words,
  extra,
})

/** A dataset as Superset answers it. */
export const datasetDetails = z.object({
  result: z.object({
    uuid: z.string(),
    columns: z.array(column),
    metrics: z.array(metric),
    always_filter_main_dttm: z.boolean().nullish(),
  }),
})
export type DatasetDetails = z.infer<typeof datasetDetails>['result']

const parsed = (text: string | null | undefined): YamlMap | null => {
  try {
    return z.record(z.string(), z.json()).parse(JSON.parse(text ?? ''))
  } catch {
    return null
  }
}

const certificate = z.object({ certification: z.object({ certified_by: z.literal(certifiedBy) }) })

/** Metrics and calculated columns that are not ours, and people's labels of the columns. Ours are as the files say. */
export const withOwn = (dataset: ReturnType<typeof datasetOf>, known: DatasetDetails | undefined): YamlMap => {
  if (known === undefined) return dataset
  const ours = new Set(dataset.metrics.map(({ metric_name }) => metric_name))
  const names = new Set(dataset.columns.map(({ column_name }) => column_name))
  return {
    ...dataset,
    uuid: known.uuid,
    always_filter_main_dttm: known.always_filter_main_dttm ?? false,
    columns: [
      ...dataset.columns.map((one) => {
        const old = known.columns.find(({ column_name }) => column_name === one.column_name)
        if (old === undefined) return one
        const { verbose_name = null, python_date_format = null } = old
        return { ...one, verbose_name, python_date_format, filterable: old.filterable ?? true, groupby: old.groupby ?? true }
      }),
      ...known.columns.filter(({ column_name, expression }) => expression && !names.has(column_name)),
    ],
    metrics: [
      ...dataset.metrics,
      ...known.metrics.filter((one) => !ours.has(one.metric_name) && !certificate.safeParse(one.extra).success),
    ],
  }
}
