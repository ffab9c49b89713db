// What zod found, said in the words of someone who writes a definition.
import { z } from 'zod'
import { type Problem, suggest } from './problem.ts'
import type { Path, YamlFile } from './yaml-file.ts'

type Issue = z.core.$ZodIssue

interface Checked {
  readonly schema: z.ZodType
  readonly yaml: YamlFile
  /** Where the checked value stands in the file. */
  readonly base: Path
}

/** Every issue as a problem at its place. `base` is where the checked value stands in the file. */
export const problemsOf = (issues: readonly Issue[], schema: z.ZodType, yaml: YamlFile, base: Path = []): readonly Problem[] =>
  issues.flatMap((issue) => problemsOfIssue(issue, [], { schema, yaml, base }))

/** `within`: the part of the schema the issue's path begins at. */
const problemsOfIssue = (issue: Issue, within: Path, checked: Checked): readonly Problem[] => {
  const { yaml, base } = checked
  const inside = [...within, ...stepsOf(issue.path)]
  const path = [...base, ...inside]
  if (issue.code === 'unrecognized_keys') return unknownKeys(issue.keys, inside, checked)
  if (issue.code === 'invalid_union') {
    const branch = fittingBranch(issue.errors)
    if (branch !== null) return branch.flatMap((one) => problemsOfIssue(one, inside, checked))
  }
  const isKey = issue.code === 'invalid_key'
  const expected = isKey ? (issue.issues[0]?.message ?? issue.message) : expectedOf(issue)
  const found = isKey ? `'${path.at(-1)}'` : yaml.found(path)
  const hint = issue.code === 'invalid_value' ? suggest(yaml.written(path) ?? '', issue.values.map(String)) : ''
  const missing = found === 'nothing' && !isKey
  const message = missing ? `${show(path)} is missing; expected ${expected}.` : `${show(path)} is ${found}; expected ${expected}.`
  return [{ file: yaml.file, ...yaml.place(path, isKey ? 'key' : 'value'), message: message + hint }]
}

const stepsOf = (path: readonly PropertyKey[]): Path => path.map((step) => (typeof step === 'number' ? step : String(step)))

const show = (path: Path): string => (path.length === 0 ? 'the file' : path.join('.'))

const expectedOf = (issue: Issue): string => {
  if (issue.code === 'invalid_value') return `one of ${issue.values.map(String).join(', ')}`
  if (issue.code === 'invalid_type' && issue.message.startsWith('Invalid input')) return `a ${issue.expected}`
  if (issue.code === 'too_small' && issue.message.startsWith('Too small')) return `a ${issue.origin} from ${issue.minimum}`
  if (issue.code === 'too_big' && issue.message.startsWith('Too big')) return `a ${issue.origin} to ${issue.maximum}`
  return issue.message
}

const unknownKeys = (keys: readonly string[], inside: Path, { schema, yaml, base }: Checked): readonly Problem[] => {
  const path = [...base, ...inside]
  const known = keysAt(schema, inside)
  return keys.map((key) => ({
    file: yaml.file,
    ...yaml.place([...path, key], 'key'),
    message: `'${key}' is not known ${path.length === 0 ? 'at the top level' : `under ${show(path)}`}.${suggest(key, known)} Correct the spelling or remove the line.`,
  }))
}

// A union speaks through the branch that got furthest: the one whose value had the right kind at all.
const fittingBranch = (branches: readonly (readonly Issue[])[]): readonly Issue[] | null => {
  const fitting = branches.filter(
    (issues) => issues.length > 0 && !issues.some((issue) => issue.path.length === 0 && issue.code === 'invalid_type'),
  )
  const few = [...fitting].sort((left, right) => left.length - right.length)[0]
  return few?.some((issue) => issue.code === 'invalid_union' || issue.path.length > 0 || issue.code === 'unrecognized_keys')
    ? few
    : null
}

/** As much of JSON Schema as zod writes and this program reads. */
export interface JsonNode {
  readonly properties?: Readonly<Record<string, JsonNode>>
  readonly additionalProperties?: JsonNode | boolean
  readonly items?: JsonNode
  readonly anyOf?: readonly JsonNode[]
  readonly default?: unknown
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly type?: string
  readonly description?: string
  readonly required?: readonly string[]
}

/** `schema` as JSON Schema; an empty node where it has parts JSON Schema cannot say. */
export const jsonSchemaOf = (schema: z.ZodType): JsonNode =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonNode

const keysAt = (schema: z.ZodType, path: Path): readonly string[] => {
  const start: readonly JsonNode[] = [jsonSchemaOf(schema)]
  const nodes = path.reduce((current, step) => current.flatMap((node) => children(node, step)), start)
  return [...new Set(nodes.flatMap(alternatives).flatMap((node) => Object.keys(node.properties ?? {})))]
}

const alternatives = (node: JsonNode): readonly JsonNode[] => [node, ...(node.anyOf ?? [])]

const children = (node: JsonNode, step: string | number): readonly JsonNode[] =>
  alternatives(node).flatMap((one) => {
    if (typeof step === 'number') return one.items === undefined ? [] : [one.items]
    const property = one.properties?.[step]
    if (property !== undefined) return [property]
    return typeof one.additionalProperties === 'object' ? [one.additionalProperties] : []
  })
