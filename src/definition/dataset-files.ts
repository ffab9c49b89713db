// The YAML of a new dataset as text: filled from what the service describes, or with placeholders that no check lets pass.
import type { DimensionSpec, FieldSpec, SourceSpec } from '../core/source-spec.ts'
import { checkValue } from './dimension-value.ts'
import { type JsonNode, jsonSchemaOf } from './issues.ts'
import { columnNameProblem } from './names.ts'
import { placeholder } from './placeholder.ts'

/** What a service says of one of its datasets. */
export interface DescribedDataset {
  readonly metrics: readonly string[]
  /** By parameter. */
  readonly choices: Readonly<Record<string, readonly string[]>>
}

/** A dataset to write the definition of. */
export interface DatasetRequest {
  readonly name: string
  /** What the service calls the dataset. */
  readonly table: string
  readonly source: SourceSpec
  /** null: the service was not asked, or does not say. */
  readonly described: DescribedDataset | null
  /** List files that stand in the folder already; `domains.txt` is used for the dimension `domain`. */
  readonly listFiles: readonly string[]
}

type Params = readonly (readonly [name: string, value: unknown])[]

/** A definition of `name`. It passes every check where the source or the service knows the columns. */
export const datasetYaml = ({ name, table, source, described, listFiles }: DatasetRequest): string => {
  const params = paramsOf(source, table, described)
  const dimensions = Object.entries(source.dimensions)
  const every = source.windowSizes?.[0] ?? 'month'
  const period = Object.hasOwn(source.fields, 'date') || every !== 'month' ? 'date' : 'month'
  const keyParams = params.filter(([, value]) => value !== table && !Array.isArray(value)).map(([param]) => param)
  const named = [period, ...dimensions.map(([dimension]) => dimension), ...keyParams]
  const key = [...named, ...identifyingFields(source).filter((field) => !named.includes(field))]
  return [
    '# yaml-language-server: $schema=./schema.json',
    `pipeline: ${name}`,
    'version: 1',
    `description: ${JSON.stringify(descriptionOf(name, key, source, described))}`,
    `source: ${source.name}`,
    ...(params.length === 0 ? [] : [`params: { ${params.map(([param, value]) => `${param}: ${yamlValue(value)}`).join(', ')} }`]),
    ...(dimensions.length === 0 ? [] : ['for_each:']),
    ...dimensions.map(([dimension, spec]) => `  ${dimension}: ${valuesOf(source, dimension, spec, listFiles)}`),
    `window: { every: ${every}, from: 2024-01, look_back: 2 }`,
    'schedule: { cron: "0 4 * * *", time_zone: Europe/Berlin }',
    'table:',
    '  # Every column that tells two rows of one answer apart belongs to the key.',
    `  key: [${key.join(', ')}]`,
    '  # `millrace new migration` writes the table from these lines, and later each change of them.',
    '  columns:',
    ...columnsOf(source, key, described),
    ...(source.kind === 'report' ? ['limits: { poll_every: 5s, deadline: 6h }'] : []),
    '',
  ].join('\n')
}

const descriptionOf = (name: string, key: readonly string[], source: SourceSpec, described: DescribedDataset | null): string => {
  if (source.openFields && described === null) return `${placeholder} say what one row is`
  const words = name.replaceAll('_', ' ')
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}; one row a ${key.slice(1).join(', ')} and ${key[0]}.`
}

const paramsOf = (source: SourceSpec, table: string, described: DescribedDataset | null): Params => {
  const { properties = {}, required = [] } = jsonSchemaOf(source.params)
  return Object.entries(properties).flatMap(([param, node]): Params => {
    // A dataset need not offer what others have, nor what is the default.
    const offered = node.enum?.filter((value) => described?.choices[param]?.includes(String(value))) ?? []
    if (offered[0] !== undefined && !offered.includes(node.default)) return [[param, offered[0]]]
    if (node.default !== undefined) return [[param, node.default]]
    return required.includes(param) ? [[param, exampleOf(node, table)]] : []
  })
}

// A text the source asks for and cannot default is the dataset's own name at the service, as far as one can guess.
const exampleOf = (node: JsonNode, name: string): unknown => {
  if (node.const !== undefined) return node.const
  if (node.enum !== undefined) return node.enum[0]
  if (node.type === 'boolean') return false
  if (node.type === 'integer' || node.type === 'number') return 1
  return node.type === 'array' ? [name] : name
}

const yamlValue = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(yamlValue).join(', ')}]`
  return typeof value === 'string' && !/^(?!(true|false|null)$)[A-Za-z][\w. -]*$/i.test(value)
    ? JSON.stringify(value)
    : String(value)
}

// What a record never lacks and no figure is: the nearest thing to a key that a source says of itself.
const identifyingFields = (source: SourceSpec): readonly string[] =>
  Object.entries(source.fields)
    .filter(([, field]) => field.nullable === false && field.ifAbsent === undefined && field.type === 'text')
    .map(([name]) => name)

/** Tried where the source gives no example of its own. */
const examples = ['1', 'a', 'example', '2024-01', 'example.com']

const valuesOf = (source: SourceSpec, dimension: string, spec: DimensionSpec, listFiles: readonly string[]): string => {
  const file = [`${dimension}s.txt`, `${dimension.replace(/y$/, 'ie')}s.txt`].find((one) => listFiles.includes(one))
  if (file !== undefined) return `{ file: ${file} }`
  const value = [spec.example ?? [], ...examples].flat().find((one) => 'value' in checkValue(one, spec, source)) ?? 'fill-in'
  return `[${yamlValue(value)}]`
}

const columnsOf = (source: SourceSpec, key: readonly string[], described: DescribedDataset | null): readonly string[] => {
  if (source.openFields && described !== null)
    return described.metrics.filter((metric) => !key.includes(metric)).map((metric) => metricLine(metric, source))
  if (source.openFields)
    return [
      `    my_metric: { type: numeric, description: "${placeholder} one line for each metric, under its name at the service" }`,
    ]
  const measures = Object.entries(source.fields).filter(([name]) => !key.includes(name))
  return measures.map(([name, field]) => `    ${name}: { ${columnWords(field)} }`)
}

const columnWords = (field: FieldSpec): string =>
  [
    `type: ${JSON.stringify(field.type)}`,
    ...(field.unit === undefined ? [] : [`unit: ${JSON.stringify(field.unit)}`]),
    `description: ${JSON.stringify(field.description)}`,
  ].join(', ')

/** A metric under its own name, or under one PostgreSQL takes. */
const metricLine = (metric: string, source: SourceSpec): string => {
  const known = source.fields[metric]
  if (known !== undefined) return `    ${metric}: { ${columnWords(known)} }`
  const plain = metric.toLowerCase().replace(/[^a-z0-9_]+/g, '_')
  const name = /^[a-z]/.test(plain) && columnNameProblem(plain) === null ? plain : `metric_${plain}`.slice(0, 63)
  const words = name.replaceAll('_', ' ')
  const from = name === metric ? '' : `, from: ${JSON.stringify(metric)}`
  return `    ${name}: { type: numeric${from}, description: ${JSON.stringify(`${words.charAt(0).toUpperCase()}${words.slice(1)}`)} }`
}
