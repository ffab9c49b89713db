// Text of all files -> definitions and every problem of every file. Reads nothing itself.
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { compile, inspect } from './compile.ts'
import { problemsOf } from './issues.ts'
import { suggest } from './nearest.ts'
import { type Problem, sortProblems } from './problem.ts'
import { definitionSchema, type RawDefinition } from './schema.ts'
import type { Scope } from './scope.ts'
import { type YamlFile, readYaml } from './yaml-file.ts'

/** Texts to check, and whom to ask about sources and lists: this file reads no disk. */
export interface DefinitionFiles {
  readonly folder: string
  /** Path as shown to people, and text. */
  readonly files: readonly { readonly file: string; readonly text: string }[]
  readonly readList: Scope['readList']
  readonly sources: ReadonlyMap<string, SourceSpec>
  /** Pipelines asked for; others are read for their names alone. */
  readonly only?: readonly string[] | undefined
}

/** Those without a problem, frozen; problems in the order of file and line. */
export interface Definitions {
  readonly definitions: readonly Definition[]
  readonly problems: readonly Problem[]
}

interface Opened {
  readonly file: string
  readonly name: string
  readonly yaml: YamlFile | null
  readonly problems: readonly Problem[]
}

/** Definitions are deep-frozen and sorted by name and version; problems are sorted by file and place. */
export const checkDefinitions = (input: DefinitionFiles): Definitions => {
  const opened = input.files.map(open)
  const wanted = opened.filter(({ name }) => (input.only ?? []).length === 0 || input.only?.includes(name))
  const results = wanted.map((one) => define(one, input))
  const definitions = results
    .flatMap(({ definition }) => definition ?? [])
    .sort((left, right) =>
      left.pipeline < right.pipeline ? -1 : left.pipeline > right.pipeline ? 1 : left.version - right.version,
    )
  const problems = [...results.flatMap((result) => result.problems), ...unknownNames(input, opened), ...duplicates(wanted)]
  return freeze({ definitions, problems: sortProblems(problems) })
}

const open = ({ file, text }: { file: string; text: string }): Opened => {
  const { yaml, problems } = readYaml(file, text)
  const stem = file.replace(/^.*[\\/]/, '').replace(/\.ya?ml$/, '')
  return { file, yaml, problems, name: yaml?.written(['pipeline']) ?? stem }
}

const define = (
  { yaml, problems }: Opened,
  input: DefinitionFiles,
): { definition: Definition | null; problems: readonly Problem[] } => {
  if (yaml === null) return { definition: null, problems }
  const raw = definitionSchema.safeParse(yaml.value)
  const form = raw.success ? [] : problemsOf(raw.error.issues, definitionSchema, yaml)
  const source = sourceOf(yaml, input.sources)
  if ('message' in source) {
    const unknown = { file: yaml.file, ...yaml.place(['source']), message: source.message }
    return { definition: null, problems: [...problems, ...form, ...(yaml.written(['source']) === null ? [] : [unknown])] }
  }
  const scope: Scope = { yaml, source: source.spec, readList: input.readList, problems: [...problems, ...form] }
  if (!raw.success) {
    inspect(wellFormed(yaml.value), scope)
    return { definition: null, problems: scope.problems }
  }
  const definition = compile(raw.data, scope)
  return { definition: scope.problems.length === 0 ? definition : null, problems: scope.problems }
}

/** The parts whose form is right although that of others is not. */
const wellFormed = (value: unknown): Partial<RawDefinition> => {
  const written: Readonly<Record<string, unknown>> = typeof value === 'object' && value !== null ? { ...value } : {}
  const { window, schedule, limits, for_each, params, table, tests } = definitionSchema.shape
  const part = <T>(schema: { safeParse(input: unknown): { data?: T } }, name: string): T | undefined =>
    schema.safeParse(written[name]).data
  return Object.fromEntries(
    Object.entries({
      window: part(window, 'window'),
      schedule: part(schedule, 'schedule'),
      limits: part(limits, 'limits'),
      for_each: part(for_each, 'for_each') ?? (written['for_each'] === undefined ? {} : undefined),
      params: part(params, 'params') ?? (written['params'] === undefined ? {} : undefined),
      table: part(table, 'table'),
      tests: part(tests, 'tests'),
    }).filter(([, data]) => data !== undefined),
  )
}

const sourceOf = (yaml: YamlFile, sources: ReadonlyMap<string, SourceSpec>): { spec: SourceSpec } | { message: string } => {
  const name = yaml.written(['source']) ?? ''
  const spec = sources.get(name)
  if (spec !== undefined) return { spec }
  return {
    message: `there is no source '${name}'.${suggest(name, [...sources.keys()])} Correct source, or add the folder under src/sources.`,
  }
}

const unknownNames = ({ only = [], folder }: DefinitionFiles, opened: readonly Opened[]): readonly Problem[] => {
  const names = [...new Set(opened.map(({ name }) => name))]
  return only
    .filter((name) => !names.includes(name))
    .map((name) => ({ file: folder, line: 1, column: 1, message: `there is no pipeline '${name}'.${suggest(name, names)}` }))
}

// Two versions of a pipeline may stand side by side while the new one fills; the view can show one.
const duplicates = (opened: readonly Opened[]): readonly Problem[] => {
  const problems: Problem[] = []
  const first = new Map<string, Opened>()
  for (const one of opened) {
    const { yaml } = one
    if (yaml === null || yaml.written(['pipeline']) === null) continue
    const version = yaml.written(['version']) ?? ''
    const published = yaml.written(['publish']) !== 'false'
    const keys = [`${one.name} version ${version}`, ...(published ? [`published ${one.name}`] : [])]
    const clash = keys.find((key) => first.has(key))
    for (const key of keys) if (!first.has(key)) first.set(key, one)
    if (clash === undefined) continue
    const fix = clash.startsWith('published ') ? 'set publish: false in the one that is still filling.' : 'rename one of the two.'
    const message = `pipeline '${one.name}' is already defined in ${first.get(clash)?.file} (${clash}); ${fix}`
    problems.push({ file: one.file, ...yaml.place(['pipeline']), message })
  }
  return problems
}

/** Freezes `value` and everything reachable from it; returns the same object. */
const freeze = <Value>(value: Value): Value => {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const part of Object.values(value)) freeze(part)
  return value
}
