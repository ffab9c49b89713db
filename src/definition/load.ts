// Loads a folder of definitions and reports every problem of every file. The checks themselves read no disk.
import { readdir } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { EtlError, messageOf, usageError } from '../core/errors.ts'
import { isRecord } from '../core/json.ts'
import { mostListBytes, readByHand, readRegular } from '../core/regular-file.ts'
import { withDatasetDimensions, type SourceSpec } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { compile, readParts } from './compile.ts'
import { problemAt, problemsOf, readYaml, type YamlFile } from './yaml-file.ts'
import { assertNoProblems, nearest, type Problem, sortProblems, suggest } from './problem.ts'
import { definitionSchema, type RawDefinition } from './schema.ts'
import { createScope, type ListText, type ReadList } from './scope.ts'

/** Which definitions to load, and the sources to check them against. */
type LoadOptions = Pick<DefinitionFiles, 'folder' | 'sources' | 'only'>

/** Every definition that is valid and every problem of every file. Throws USAGE when the folder cannot be read. */
export const loadDefinitions = async ({ folder, sources, only }: LoadOptions): Promise<Definitions> => {
  const names = (await filesIn(folder)).filter((name) => /\.ya?ml$/.test(name) && !name.startsWith('.')).sort()
  const files = names.map((name) => ({ file: join(folder, name), text: readByHand(join(folder, name)) }))
  const result = checkDefinitions({ folder, files, sources, only, readList: (path) => readList(folder, path) })
  if (files.length > 0) return result
  const message = 'the folder holds no *.yaml; `millrace new dataset NAME` writes one.'
  const problems = [{ file: folder, line: 1, column: 1, message }]
  return { definitions: [], problems, mistakes: problems }
}

/**
 * Throws one DEFINITION error that lists every problem; returns if there is none. An unreadable list file stops only its own pipelines,
 * unless pipelines were named or no other is left.
 */
export const assertDefinitions = ({ definitions, problems, mistakes }: Definitions, named: readonly string[] = []): void =>
  void assertNoProblems({
    problems: named.length === 0 && definitions.some((one) => unreadList(one) === null) ? mistakes : problems,
  })

/** Why a list file of the definition cannot be read; null: all can. */
export const unreadList = ({ dimensions }: Definition): string | null =>
  dimensions.find(({ unread }) => unread !== undefined)?.unread ?? null

const filesIn = async (folder: string): Promise<readonly string[]> => {
  try {
    return await readdir(folder)
  } catch (cause) {
    throw usageError(
      `The folder of definitions '${folder}' cannot be read (${messageOf(cause)}); change to the folder that has it, name it with --pipelines DIR, or make one with \`millrace init\`.`,
      cause,
    )
  }
}

const readList = (folder: string, path: string): ListText & { shown: string } => {
  const shown = isAbsolute(path) ? path : join(folder, path)
  try {
    return { shown, text: readRegular(shown, mostListBytes) }
  } catch (cause) {
    return { shown, failure: messageOf(cause).startsWith('ENOENT') ? 'does not exist' : `cannot be read (${messageOf(cause)})` }
  }
}

/** Texts to check, with sources and list files as arguments, so that the checks read no disk. */
interface DefinitionFiles {
  /** Folder of the `*.yaml` files; problems name files as `<folder>/<file>`. */
  readonly folder: string
  /** Path as shown to people, and text. */
  readonly files: readonly { readonly file: string; readonly text: string }[]
  readonly readList: ReadList
  readonly sources: ReadonlyMap<string, SourceSpec>
  /** Pipelines to check; absent or empty: all. Of others only the name is read, so that their mistakes do not matter. */
  readonly only?: readonly string[] | undefined
}

export type Definitions = ReturnType<typeof checkDefinitions>

type Opened = ReturnType<typeof open>

/**
 * Valid definitions, deep-frozen and sorted by name, the published version first; problems are sorted by file and place. `mistakes`: the problems without those of list files, which stop only
 * their own pipelines: such a definition has an `unread` list.
 */
export const checkDefinitions = (input: DefinitionFiles) => {
  const opened = input.files.map(open)
  const wanted = opened.filter(({ name }) => (input.only ?? []).length === 0 || input.only?.includes(name))
  const results = wanted.map((one) => define(one, input))
  const definitions = results
    .flatMap(({ definition }) => definition ?? [])
    .sort((left, right) => {
      if (left.pipeline !== right.pipeline) return left.pipeline < right.pipeline ? -1 : 1
      return left.publish === right.publish ? right.version - left.version : left.publish ? -1 : 1
    })
  assertKnown(input, opened)
  const mistakes = [...results.flatMap((result) => result.problems), ...duplicates(wanted), ...strayed(wanted, opened)]
  const lists = results.flatMap((result) => result.lists)
  return freeze({ definitions, problems: sortProblems([...mistakes, ...lists]), mistakes: sortProblems(mistakes) })
}

const open = ({ file, text }: DefinitionFiles['files'][number]) => {
  const { yaml, problems } = readYaml(file, text)
  const stem = file.replace(/^.*[\\/]/, '').replace(/\.ya?ml$/, '')
  return { file, yaml, problems, name: yaml?.written(['pipeline']) ?? stem }
}

const define = ({ yaml, problems }: Opened, input: DefinitionFiles) => {
  if (yaml === null) return { definition: null, problems, lists: [] }
  const raw = definitionSchema.safeParse(yaml.value)
  const form = raw.success ? [] : problemsOf(raw.error.issues, definitionSchema, yaml)
  const source = sourceOf(yaml, input.sources)
  if ('message' in source) {
    const unknown = problemAt(yaml, ['source'], source.message)
    const all = [...problems, ...form, ...(yaml.written(['source']) === null ? [] : [unknown])]
    return { definition: null, problems: all, lists: [] }
  }
  const written: { readonly params?: unknown; readonly for_each?: unknown } = recordOf(yaml.value)
  const spec = withDatasetDimensions(source.spec, recordOf(written.params), Object.keys(recordOf(written.for_each)))
  const scope = createScope(yaml, spec, input.readList, [...problems, ...form])
  if (!raw.success) {
    readParts(wellFormed(yaml.value), scope)
    return { definition: null, problems: scope.problems, lists: scope.lists }
  }
  const definition = compile(raw.data, scope)
  return { definition: scope.problems.length === 0 ? definition : null, problems: scope.problems, lists: scope.lists }
}

const recordOf = (value: unknown): Readonly<Record<string, unknown>> => (isRecord(value) ? value : {})

const inspected = ['window', 'schedule', 'limits', 'for_each', 'params', 'table', 'tests'] as const

/** The well-formed parts of a file that has malformed ones. */
const wellFormed = (value: unknown): Partial<RawDefinition> => {
  const written: Readonly<Record<string, unknown>> = { for_each: {}, params: {}, ...recordOf(value) }
  return Object.fromEntries(
    inspected.flatMap((name) => {
      const { data } = definitionSchema.shape[name].safeParse(written[name])
      return data === undefined ? [] : [[name, data]]
    }),
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

/** Throws USAGE for an unknown name: the mistake is on the command line, not in a file. */
const assertKnown = ({ only = [] }: DefinitionFiles, opened: readonly Opened[]): void => {
  const names = [...new Set(opened.map(({ name }) => name))]
  const unknown = only.filter((name) => !names.includes(name))
  if (unknown.length > 0)
    throw new EtlError('USAGE', unknown.map((name) => `There is no pipeline '${name}'.${suggestAll(name, names)}`).join('\n'))
}

/** A suggestion; for several names in one word, the names with spaces between, as the command expects them. */
const suggestAll = (word: string, names: readonly string[]): string => {
  const parts = word.split(/[,;]/).filter((part) => part !== '')
  if (parts.length < 2) return suggest(word, names)
  return ` Write names with a space between them: ${parts.map((part) => nearest(part, names) ?? part).join(' ')}.`
}

const strayed = (wanted: readonly Opened[], all: readonly Opened[]): readonly Problem[] =>
  wanted.flatMap(({ yaml, name }): Problem[] => {
    const successor = yaml?.written(['successor']) ?? null
    if (yaml === null || successor === null) return []
    const names = all.map((one) => one.name).filter((one) => one !== name)
    if (names.includes(successor)) return []
    const message = `there is no pipeline '${successor}' to continue this one.${suggest(successor, names)} Write its definition, or remove successor.`
    return [problemAt(yaml, ['successor'], message)]
  })

// Two versions of a pipeline may exist while the new one fills, but only one can be published.
const duplicates = (opened: readonly Opened[]): readonly Problem[] => {
  const problems: Problem[] = []
  const first = new Map<string, Opened>()
  for (const one of opened) {
    const { yaml } = one
    if (yaml === null || yaml.written(['pipeline']) === null) continue
    const { version, publish }: { readonly version?: unknown; readonly publish?: unknown } = recordOf(yaml.value)
    const keys = [`${one.name} version ${version}`, ...(publish === false ? [] : [`published ${one.name}`])]
    const clash = keys.find((key) => first.has(key))
    for (const key of keys) if (!first.has(key)) first.set(key, one)
    if (clash === undefined) continue
    const fix = clash.startsWith('published ') ? 'set publish: false in the one that is still filling.' : 'rename one of the two.'
    const message = `pipeline '${one.name}' is already defined in ${first.get(clash)?.file} (${clash}); ${fix}`
    problems.push(problemAt(yaml, ['pipeline'], message))
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
