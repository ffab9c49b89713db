// Shared by the checks of one file: the file, its source, its parameters, and the list of problems.
import type { SourceSpec } from '../core/source-spec.ts'
import type { ParamValue } from '../core/types.ts'
import { jsonSchemaOf, type Path, problemAt, problemsOf, type YamlFile } from './yaml-file.ts'
import type { Problem } from './problem.ts'

/** A list file's text, or why it could not be read. */
export type ListText = { readonly text: string } | { readonly failure: string }

/** `path` is relative to the folder of definitions. `shown` is the path for messages. */
export type ReadList = (path: string) => ListText & { readonly shown: string }

export type Scope = ReturnType<typeof createScope>

/** The state of checking one file. Collects problems, so that one pass finds every mistake. @param problems that were found before */
export const createScope = (yaml: YamlFile, source: SourceSpec, readList: ReadList, problems: Problem[]) => ({
  ...{ yaml, source, readList, problems },
  /** Problems of list files. */
  lists: [] as Problem[],
  /** Adds a problem; arguments as of `problemAt`. */
  report: (path: Path, message: string, part?: 'key' | 'value'): void => void problems.push(problemAt(yaml, path, message, part)),
})

/** Parameters with the source's defaults; null where they are not valid (problems go to the scope). @param forEach names of dimensions: each unit has its own values for them */
export const readParams = (
  raw: Readonly<Record<string, unknown>>,
  forEach: readonly string[],
  scope: Scope,
): Readonly<Record<string, ParamValue>> | null => {
  const checked = scope.source.params.safeParse(raw)
  for (const name of forEach.filter((one) => Object.hasOwn(raw, one)))
    scope.report(['params', name], `'${name}' is in params and in for_each; keep it in one of the two.`, 'key')
  const { withDefaults = (params) => params } = scope.source
  if (checked.success)
    return Object.fromEntries(Object.entries(withDefaults(checked.data)).filter(([name]) => !forEach.includes(name)))
  scope.problems.push(...problemsOf(checked.error.issues, scope.source.params, scope.yaml, ['params']))
  return null
}

/** The source's description of a parameter; null: it has none. */
export const paramDescription = (scope: Scope, name: string): string | null =>
  jsonSchemaOf(scope.source.params).properties?.[name]?.description ?? null

/** The beginning of a text that a person must still write. */
export const placeholder = 'FILL IN:'

export const placeholderProblem = (text: string): string | null =>
  text.startsWith(placeholder) ? `'${text}' is a placeholder; replace it with the value it describes.` : null
