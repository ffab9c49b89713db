// `millrace new dataset`: the YAML as text, filled from what the service describes, or with placeholders that no check lets pass.
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { diskError, makeFolders } from '../core/disk-error.ts'
import { EtlError, messageOf, usageError } from '../core/errors.ts'
import { readByHand } from '../core/regular-file.ts'
import { type Dataset, type DimensionSpec, type FieldSpec, withDatasetDimensions, type SourceSpec } from '../core/source-spec.ts'
import type { ColumnType } from '../core/column-types.ts'
import type { WindowSize } from '../core/types.ts'
import { addWindows, alignDown } from '../core/window.ts'
import { columnNameProblem, pipelineNameProblem } from './columns.ts'
import { checkValue } from './for-each.ts'
import { type JsonNode, jsonSchemaOf } from './yaml-file.ts'
import { placeholder } from './scope.ts'

/** The service's description of a dataset; missing fields are not known. */
export type DescribedDataset = Pick<Dataset, 'metrics' | 'choices'> & Partial<Dataset>

interface NewDataset {
  readonly name: string
  readonly source: SourceSpec
  /** The folder of the definitions. */
  readonly folder: string
  /** What the service calls the dataset. Default: its name. */
  readonly table?: string
  /** null, the default: the service was not asked, or does not say. */
  readonly described?: DescribedDataset | null
}

/** Files of the folder, definitions with their text: `domains.txt` is used for the dimension `domain`, and lists of definitions. */
type Beside = ReadonlyMap<string, string>

type Params = readonly (readonly [name: string, value: unknown])[]

/** A definition of `name`. It passes every check where the source or the service knows the columns. */
const datasetYaml = ({ name, table = name, source: known, described: said = null }: NewDataset, beside: Beside): string => {
  const params = withFilters(known, table, paramsOf(known, table, said), said)
  const source = withDatasetDimensions(known, Object.fromEntries(params), [])
  // A dimension that is also a parameter stays a parameter.
  const { properties = {} } = jsonSchemaOf(source.params)
  const dimensions = Object.entries(source.dimensions).filter(([dimension]) => !Object.hasOwn(properties, dimension))
  const every = windowSizeOf(source, Object.fromEntries(params))
  const period = Object.hasOwn(source.fields, 'date') || every !== 'month' ? 'date' : 'month'
  const asked = [period, ...dimensions.map(([dimension]) => dimension), ...params.map(([param]) => param)]
  const parts = said?.dimensions ?? known.splitOf?.(table) ?? null
  // Some services list requested dimensions and parameters among the dataset's dimensions.
  const split = said === null ? null : (parts?.filter((one) => !asked.includes(columnName(one))) ?? null)
  const described = said === null ? null : { ...said, dimensions: split }
  const keyParams = params.filter(([, value]) => value !== table && !Array.isArray(value)).map(([param]) => param)
  const splits = withNames({ dimensions: split, metrics: [] }, []).map(({ name }) => name)
  const things = [...dimensions.map(([dimension]) => dimension), ...splits]
  const named = [period, ...things, ...keyParams]
  const key = [...named, ...identifyingFields(known).filter((field) => !named.includes(field))]
  const grain = inWords.format([...key.filter((one) => one !== period && !keyParams.includes(one)), every])
  return [
    '# yaml-language-server: $schema=./schema.json',
    `pipeline: ${name}`,
    'version: 1',
    `description: ${JSON.stringify(descriptionOf(name, grain, source, described))}`,
    `source: ${source.name}`,
    ...(params.length === 0 ? [] : [`params: { ${params.map(([param, value]) => `${param}: ${yamlValue(value)}`).join(', ')} }`]),
    ...(dimensions.length === 0 ? [] : ['for_each:']),
    ...dimensions.map(([dimension, spec]) => `  ${dimension}: ${valuesOf(source, dimension, spec, beside)}`),
    `window: { every: ${every}, from: ${firstWindow(described, every)}, look_back: 2 }`,
    'schedule: { cron: "0 4 * * *", time_zone: Europe/Berlin }',
    'table:',
    ...aboutKey(source, described),
    `  key: [${key.join(', ')}]`,
    '  # `millrace new migration` writes the table from these lines, and later each change of them.',
    '  columns:',
    ...columnsOf(source, key, described),
    ...(source.kind === 'report' ? ['limits: { poll_every: 5s, deadline: 6h }'] : []),
    '',
  ].join('\n')
}

/** `domain, country and month`. */
const inWords = new Intl.ListFormat('en-GB')

const descriptionOf = (name: string, grain: string, source: SourceSpec, described: DescribedDataset | null): string => {
  if (described === null && isUnknown(source)) return `${placeholder} say what one row is`
  const about = (described?.about || wordsOf(name)).replace(/\.$/, '')
  return `${about}; one row per ${grain.replaceAll('_', ' ')}.`
}

const wordsOf = (name: string): string => {
  const words = name.replaceAll('_', ' ')
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}

const defaultFrom = '2024-01'

/** The first window: not before the service's first month. */
const firstWindow = (described: DescribedDataset | null, every: WindowSize): string => {
  const from = described?.from ?? defaultFrom
  const month = from > defaultFrom ? from : defaultFrom
  if (every === 'month') return month
  const day = `${month}-01`
  const aligned = alignDown(day, every)
  return aligned === day ? day : addWindows(aligned, every, 1)
}

/** The first window size that the source accepts with these parameters: a weekly report has weekly windows. */
const windowSizeOf = ({ windowSizes, problems }: SourceSpec, params: Readonly<Record<string, unknown>>): WindowSize => {
  const isRefused = (every: WindowSize): boolean =>
    problems?.({ params, window: { every } }).some(({ path }) => path.join('.') === 'window.every') ?? false
  return windowSizes?.find((every) => !isRefused(every)) ?? windowSizes?.[0] ?? 'month'
}

const aboutKey = (source: SourceSpec, described: DescribedDataset | null): readonly string[] => [
  '  # Every column that distinguishes two rows of one answer belongs to the key.',
  ...(source.openFields && described !== null && (described.dimensions ?? null) === null
    ? ['  # The service does not list other such columns, a channel for instance. Add missing ones here and below.']
    : []),
]

const paramsOf = (source: SourceSpec, table: string, described: DescribedDataset | null): Params => {
  const { properties = {}, required = [] } = jsonSchemaOf(source.params)
  return Object.entries(properties).flatMap(([param, node]): Params => {
    if (source.deliveryParams?.includes(param)) return []
    // The dataset may offer only some of the choices, and not the default.
    const offered = node.enum?.filter((value) => described?.choices[param]?.includes(String(value))) ?? []
    if (offered[0] !== undefined && !offered.includes(node.default)) return [[param, offered[0]]]
    if (node.default !== undefined) return [[param, node.default]]
    return required.includes(param) ? [[param, exampleOf(node, table)]] : []
  })
}

/** Adds defaults that depend on the dataset, and filters where the service describes others than the source knows. */
const withFilters = (source: SourceSpec, table: string, params: Params, said: DescribedDataset | null): Params => {
  const { properties = {} } = jsonSchemaOf(source.params)
  const given = Object.fromEntries(params)
  const { withDefaults = (plain) => plain, dimensionsOf } = source
  const described: Readonly<Record<string, unknown>> = { ...given, ...(said?.filters == null ? {} : { filters: said.filters }) }
  const isKnown =
    dimensionsOf === undefined ||
    said?.filters == null ||
    (namesOf(dimensionsOf(described, [])) === namesOf(dimensionsOf(given, [])) &&
      // A filter that takes no list, such as include_subdomains, is a parameter; the service does not name it for datasets that the source knows.
      ((source.splitOf?.(table) ?? null) !== null ||
        namesOf({ ...withDefaults(described), filters: null }) === namesOf({ ...withDefaults(given), filters: null })))
  return Object.entries(withDefaults(isKnown || !Object.hasOwn(properties, 'filters') ? given : described))
}

const namesOf = (dimensions: object): string => Object.keys(dimensions).sort().join()

// A required text without a default is probably the dataset's name at the service.
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

// Fields of type text that every record has: the nearest to a key that a source declares.
const identifyingFields = (source: SourceSpec): readonly string[] =>
  Object.entries(source.fields)
    // Dimensions of other datasets of the source are no fields of this one.
    .filter(([name]) => source.dimensionsOf === undefined || !Object.hasOwn(source.dimensions, name))
    .filter(([, field]) => field.nullable === false && field.ifAbsent === undefined && field.type === 'text')
    .map(([name]) => name)

/** Example values that are tried where the source gives none. */
const examples = ['1', 'a', 'example', '2024-01', 'example.com']

const valuesOf = (source: SourceSpec, dimension: string, spec: DimensionSpec, beside: Beside): string => {
  const file = [`${dimension}s.txt`, `${dimension.replace(/y$/, 'ie')}s.txt`].find((one) => beside.has(one))
  if (file !== undefined) return `{ file: ${file} }`
  const isValid = (one: string): boolean => 'value' in checkValue(one, spec, source)
  const list = new RegExp(`^ +${dimension}: \\[(.+)\\]$`, 'm')
  const lists = [...beside.values()].map((text) => list.exec(text)?.[1]?.split(/, */) ?? [])
  const own = lists.find((values) => values.length > 0 && values.every(isValid))
  if (own !== undefined) return `[${own.join(', ')}]`
  const value = [spec.example ?? [], ...examples].flat().find(isValid)
  return value === undefined ? `["${placeholder} ${spec.expected ?? `one or more of ${dimension}`}"]` : `[${yamlValue(value)}]`
}

const columnsOf = (source: SourceSpec, key: readonly string[], described: DescribedDataset | null): readonly string[] => {
  if (source.openFields && described !== null)
    return withNames(described, key).map(({ given, name, type }) => columnLine(given, name, type, source, described))
  if (isUnknown(source))
    return [
      `    my_metric: { type: numeric, description: "${placeholder} one line for each metric, under its name at the service" }`,
    ]
  const measures = Object.entries(source.fields).filter(([name]) => !key.includes(name))
  return measures.map(([name, field]) => `    ${name}: { ${columnWords(field)} }`)
}

/** Whether the figures are not known: a source with several datasets does not say which has which field; others declare only dimensions. */
const isUnknown = ({ openFields, dimensionsOf, dimensions, fields }: SourceSpec): boolean =>
  openFields &&
  (dimensionsOf !== undefined || Object.keys(fields).every((one) => one === 'date' || Object.hasOwn(dimensions, one)))

const columnWords = (field: FieldSpec): string =>
  [
    `type: ${JSON.stringify(field.type)}`,
    ...(field.unit === undefined ? [] : [`unit: ${JSON.stringify(field.unit)}`]),
    `description: ${JSON.stringify(field.description)}`,
  ].join(', ')

/** The service's name, or the nearest name that PostgreSQL accepts. */
const columnName = (given: string): string => {
  const plain = given.toLowerCase().replace(/[^a-z0-9_]+/g, '_')
  return /^[a-z]/.test(plain) && columnNameProblem(plain) === null ? plain : `metric_${plain}`.slice(0, 63)
}

/** One column for each name, also where the service repeats a name, or two names become the same column name. */
const withNames = ({ dimensions, metrics }: Pick<DescribedDataset, 'dimensions' | 'metrics'>, key: readonly string[]) => {
  const taken = new Set<string>()
  const named = (type: ColumnType) => (given: string) => {
    const plain = columnName(given)
    let name = plain
    for (let count = 2; taken.has(name); count += 1) name = `${plain.slice(0, 40)}_${count}`
    taken.add(name)
    return { given, name, type }
  }
  const splits = new Set(dimensions ?? [])
  const texts = [...splits].map(named('text'))
  for (const one of key) taken.add(one)
  const figures = new Set(metrics.filter((metric) => !key.includes(metric) && !splits.has(metric)))
  return [...texts, ...[...figures].map(named('numeric'))]
}

const columnLine = (
  given: string,
  name: string,
  type: ColumnType,
  source: SourceSpec,
  { descriptions = {} }: DescribedDataset,
): string => {
  const known = source.fields[given]
  if (known !== undefined && name === given) return `    ${given}: { ${columnWords(known)} }`
  const from = name === given ? '' : `, from: ${JSON.stringify(given)}`
  return `    ${name}: { type: ${type}${from}, description: ${JSON.stringify(descriptions[given] ?? wordsOf(name))} }`
}

/** Throws USAGE when the dataset is there. @returns the files beside it, definitions with their text */
export const assertFree = async (name: string, folder: string): Promise<Beside> => {
  checkName(name)
  const files = await filesIn(folder)
  const beside = new Map<string, string>()
  for (const one of files) beside.set(one, /^[^.].*\.ya?ml$/.test(one) ? readByHand(join(folder, one)) : '')
  const defines = new RegExp(`^pipeline:\\s*["']?${name}["']?\\s*(#.*)?$`, 'm')
  const taken = files.find((one) => [`${name}.yaml`, `${name}.yml`].includes(one) || defines.test(beside.get(one) ?? ''))
  const why = 'exists already, nothing was written; choose another name or remove the file first.'
  if (taken !== undefined) throw new EtlError('USAGE', `${join(folder, taken)} ${why}`)
  return beside
}

/** Writes `<folder>/<name>.yaml` and returns its path. Throws USAGE, having written nothing, when the dataset is there. */
export const newDataset = async (wanted: NewDataset): Promise<string> => {
  const { name, folder } = wanted
  const beside = await assertFree(name, folder)
  const file = join(folder, `${name}.yaml`)
  await writeNewFile(file, datasetYaml(wanted, beside))
  return file
}

/** Throws DISK, also where the file exists. */
export const writeNewFile = async (file: string, text: string): Promise<void> => {
  try {
    await writeFile(file, text, { flag: 'wx' })
  } catch (cause) {
    throw diskError(cause, file)
  }
}

const checkName = (name: string): void => {
  const wrong = /^[a-z][a-z0-9_]*$/.test(name)
    ? pipelineNameProblem(name, 1)
    : `'${name}' is not a name of lower-case letters, digits and _ that begins with a letter; write for example traffic_sources.`
  if (wrong !== null) throw new EtlError('USAGE', wrong)
}

const filesIn = async (folder: string): Promise<readonly string[]> => {
  try {
    await makeFolders(folder)
    return await readdir(folder)
  } catch (cause) {
    throw usageError(`The folder '${folder}' cannot be used (${messageOf(cause)}); name another with --pipelines DIR.`, cause)
  }
}
