// Reads for_each of a definition: dimensions and their values, from the YAML or from list files.
import type { DimensionSpec, SourceSpec } from '../core/source-spec.ts'
import type { Dimension } from '../core/types.ts'
import { firstNonUtf8, notUtf8, showProblem, suggest } from './problem.ts'
import type { RawDimension } from './schema.ts'
import type { Scope } from './scope.ts'
import { type Path, problemAt } from './yaml-file.ts'

const mostValues = 1_000_000

/**
 * The dimensions in the order of the YAML. Problems go to the scope; a dimension with one is left out.
 * @param params as they were written: they name the dataset, which may have limits of its own
 */
export const readDimensions = (
  raw: Readonly<Record<string, RawDimension>>,
  params: Readonly<Record<string, unknown>>,
  scope: Scope,
): readonly Dimension[] => {
  const known = scope.source.dimensions
  const most = scope.source.limitsOf?.(params).values ?? {}
  for (const [name, spec] of Object.entries(known)) {
    if (!spec.required || Object.hasOwn(raw, name)) continue
    const path = Object.keys(raw).length > 0 ? ['for_each'] : ['source']
    scope.report(
      path,
      `for_each lacks '${name}' (${spec.description}), which ${whatOf(params, scope.source)} needs; add it under for_each.`,
      'key',
    )
  }
  return Object.entries(raw).flatMap(([name, written]) => {
    const spec = Object.hasOwn(known, name) ? known[name] : undefined
    if (spec !== undefined)
      return [readDimension(name, written, { ...spec, mostPerRequest: most[name] ?? spec.mostPerRequest }, scope)]
    const hint = suggest(name, Object.keys(known))
    scope.report(
      ['for_each', name],
      `${whatOf(params, scope.source)} cannot run for each '${name}'.${hint} Correct or remove it.`,
      'key',
    )
    return []
  })
}

/** For messages: the dataset and its filters where the source has several, else the source. */
const whatOf = (params: Readonly<Record<string, unknown>>, { name, dimensions, dimensionsOf, datasetOf }: SourceSpec): string => {
  if (dimensionsOf === undefined || datasetOf === undefined) return name
  const known = Object.keys(dimensions)
  return `the table ${datasetOf({ params })} (it filters by ${known.length === 0 ? 'nothing' : known.join(', ')})`
}

const readDimension = (name: string, written: RawDimension, spec: DimensionSpec, scope: Scope): Dimension => {
  const path: Path = ['for_each', name]
  const given: Exclude<RawDimension, readonly unknown[]> = Array.isArray(written) ? { values: written } : written
  const bucket = given.bucket ?? null
  checkBucket(name, bucket, spec, scope)
  if ('file' in given) {
    const { file } = given
    const before = scope.lists.length
    const values = fromFile(file, [...path, 'file'], spec, scope)
    const wrong = scope.lists[before]
    return { name, bucket, file, ...(wrong === undefined ? { values } : { values: [], unread: showProblem(wrong) }) }
  }
  if ('query' in given) {
    const query = { sql: given.query, shrink: given.shrink ?? 0.1, timeoutMs: given.timeout ?? 30_000 }
    return { name, bucket, file: null, values: [], query }
  }
  const listPath = Array.isArray(written) ? path : [...path, 'values']
  return { name, bucket, file: null, values: fromYaml(given.values, listPath, spec, scope) }
}

/** A bucket lowers the source's limit of values a request. A higher bucket is reported as a mistake, not silently capped. */
const checkBucket = (name: string, bucket: number | null, { mostPerRequest }: DimensionSpec, scope: Scope): void => {
  if (bucket === null) return
  const path: Path = ['for_each', name, 'bucket']
  const found = `for_each.${name}.bucket is ${bucket}; ${scope.source.name} takes`
  if (mostPerRequest === 1) scope.report(path, `${found} one ${name} per request. Remove bucket.`, 'key')
  else if (bucket > mostPerRequest)
    scope.report(
      path,
      `${found} at most ${mostPerRequest} values of ${name} per report. Write ${mostPerRequest} or less, or remove bucket.`,
    )
}

interface Written {
  readonly text: string
  readonly wrong: (message: string) => void
  readonly where: string
}

const collect = (all: readonly Written[], spec: DimensionSpec, source: SourceSpec): readonly string[] => {
  const seen = new Map<string, string>()
  for (const { text, wrong, where } of all) {
    const checked = checkValue(text, spec, source)
    if ('message' in checked) wrong(checked.message)
    else if (seen.has(checked.value)) wrong(`'${checked.value}' already appears ${seen.get(checked.value)}; keep one of the two.`)
    else seen.set(checked.value, where)
  }
  return [...seen.keys()]
}

const fromYaml = (list: readonly (string | number)[], path: Path, spec: DimensionSpec, scope: Scope): readonly string[] => {
  if (list.length === 0) scope.report(path, `${path.join('.')} is an empty list; add a value, or nothing would ever run.`)
  const all = list.map((value, index): Written => {
    const place = [...path, index]
    return {
      text: scope.yaml.written(place) ?? String(value),
      wrong: (message) => scope.report(place, `${path.join('.')}: ${message}`),
      where: `in line ${scope.yaml.place(place).line}`,
    }
  })
  return collect(all, spec, scope.source)
}

const shownCharacters = 24
const lineEnd = /\r\n?|\n/

/** A path may lead, by mistake or not, to a file that is no list: messages show only the beginning of its lines. */
const withoutContent = (message: string): string =>
  message.replace(/'([^']+)'/g, (quoted, text: string) =>
    text.length > shownCharacters ? `'${text.slice(0, shownCharacters)}…'` : quoted,
  )

const fromFile = (file: string, path: Path, spec: DimensionSpec, scope: Scope): readonly string[] => {
  const list = scope.readList(file)
  const wrong = (message: string): void => void scope.lists.push(problemAt(scope.yaml, path, `${path.join('.')}: ${message}`))
  if ('failure' in list) {
    wrong(`the list file ${list.shown} ${list.failure}; create it (one value per line) or correct the path.`)
    return []
  }
  const lines = list.text.replace(/^\uFEFF/, '').split(lineEnd)
  const foreign = firstNonUtf8(list.text)
  if (foreign >= 0) {
    const before = list.text.slice(0, foreign).split(lineEnd)
    scope.lists.push({ file: list.shown, line: before.length, column: (before.at(-1)?.length ?? 0) + 1, message: notUtf8 })
    return []
  }
  const all = lines.flatMap((line, index): readonly Written[] => {
    const text = line.replace(/(^|\s)#.*$/, '')
    if (text.trim() === '') return []
    const place = { file: list.shown, line: index + 1, column: line.length - line.trimStart().length + 1 }
    return [
      {
        text,
        wrong: (message) =>
          scope.lists.push({ ...place, message: withoutContent(message) + (/[,;\t]/.test(text) ? ' One value a line.' : '') }),
        where: `in line ${index + 1}`,
      },
    ]
  })
  if (all.length === 0) wrong(`the list file ${list.shown} holds no value; add one per line.`)
  if (all.length <= mostValues) return collect(all, spec, scope.source)
  wrong(`${list.shown} holds ${all.length} values; at most ${mostValues} are allowed.`)
  return []
}

const longestValue = 253

/** The value as the warehouse writes it, or what is wrong with it and what to write instead. */
type CheckedValue = { readonly value: string } | { readonly message: string }

/** Normalizes and checks `written` as the source wants it. The message says what was found, what is expected and how to write it. */
export const checkValue = (written: string, spec: DimensionSpec, { spellings }: Pick<SourceSpec, 'spellings'>): CheckedValue => {
  const text = written.trim()
  if (/^".*"$/.test(text)) return { message: `'${text}' is in quotes; write it without them.` }
  if (text === '') return { message: 'an empty value; write one or remove the line.' }
  if (text.length > longestValue) return { message: `a value of ${text.length} characters; at most ${longestValue} are allowed.` }
  const spelling = spec.normalize === undefined ? undefined : spellings?.[spec.normalize]
  const wrong = spelling?.problem(text) ?? null
  if (wrong !== null) return { message: wrong }
  const value = spelling?.write(text) ?? text
  if (spec.pattern !== undefined && !new RegExp(spec.pattern.source, spec.pattern.flags.replace(/[gy]/g, '')).test(value)) {
    return { message: `'${text}' does not fit; expected ${spec.expected ?? `text that matches ${spec.pattern.source}`}.` }
  }
  return { value }
}
