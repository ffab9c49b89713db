// Reads a YAML file: its value and the place of each part; refuses parts of YAML that definitions do not use. Turns zod's issues into problems in the words of a
// person who writes a definition.
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml'
import { firstNonUtf8, nearest, notUtf8, type Problem, suggest } from './problem.ts'
import { z } from 'zod'

/** Keys and list indexes from the top of the file: `['table', 'key', 2]`. */
export type Path = readonly (string | number)[]

/** Both from 1, as editors count. */
export interface Place {
  readonly line: number
  readonly column: number
}

/** A parsed file that knows the place of each part. */
export type YamlFile = ReturnType<typeof asYamlFile>

/** A problem at `path`; where the path does not exist, at the nearest part around it. */
export const problemAt = (yaml: YamlFile, path: Path, message: string, part: 'key' | 'value' = 'value'): Problem => ({
  file: yaml.file,
  ...yaml.place(path, part),
  message,
})

/** Parses `text`; `yaml` null: it is no valid YAML. */
export const readYaml = (file: string, text: string): { yaml: YamlFile | null; problems: readonly Problem[] } => {
  const counter = new LineCounter()
  const foreign = firstNonUtf8(text)
  // The parser takes a CR alone for no line end: all behind a comment would be part of it.
  const document = parseDocument(text.replaceAll(/\r(?!\n)/g, '\n'), {
    lineCounter: counter,
    prettyErrors: false,
    version: '1.2',
    merge: false,
  })
  const problemAt = (offset: number, message: string): Problem => ({ file, ...placeOf(counter, offset), message })
  if (foreign >= 0) return { yaml: null, problems: [problemAt(foreign, notUtf8)] }
  // After a tab the parser reports errors in later lines that are correct; show only the tab.
  const tabs = document.errors.filter(({ code }) => code === 'TAB_AS_INDENT')
  const told = tabs.length > 0 ? tabs : document.errors
  const syntax = told.map((error) => problemAt(error.pos[0], explained(error.code, error.message)))
  if (document.errors.some((error) => error.code !== 'DUPLICATE_KEY')) return { yaml: null, problems: syntax }
  const refused = refusedParts(document, problemAt)
  if (refused.length > 0) return { yaml: null, problems: [...syntax, ...refused] }
  if (document.contents === null) {
    return { yaml: null, problems: [problemAt(0, 'the file is empty; `millrace new dataset NAME` writes one to start from.')] }
  }
  return { yaml: asYamlFile(file, document, counter), problems: syntax }
}

const placeOf = (counter: LineCounter, offset: number): Place => {
  const { line, col } = counter.linePos(offset)
  return { line: Math.max(1, line), column: Math.max(1, col) }
}

const explained = (code: string, message: string): string => {
  if (code === 'DUPLICATE_KEY') return 'this key appears twice in the same map; keep one of the two.'
  if (code === 'TAB_AS_INDENT') return 'a tab is used to indent; YAML wants spaces.'
  if (code === 'MULTIPLE_DOCS') return 'a second document begins here; write one pipeline per file.'
  return `not valid YAML: ${message.replaceAll('\n', ' ')}. Correct the line (quotes, colons and indentation are the usual cause).`
}

type ProblemAt = (offset: number, message: string) => Problem

// With anchors, aliases, merges and tags the meaning of a line is elsewhere; definitions must be readable for people.
const refusedParts = (document: Document, problemAt: ProblemAt): readonly Problem[] => {
  const problems: Problem[] = []
  const refuse = (node: Node, what: string): void => {
    problems.push(problemAt(node.range?.[0] ?? 0, `${what}; definitions have none of these, write the value out.`))
  }
  visit(document, {
    Node: (_, node) => {
      if (isAlias(node)) refuse(node, `'*${node.source}' is a YAML alias`)
      else if (node.anchor !== undefined) refuse(node, `'&${node.anchor}' is a YAML anchor`)
      else if (node.tag !== undefined) refuse(node, `'${node.tag}' is a YAML tag`)
    },
    Pair: (_, pair) => {
      if (isScalar(pair.key) && pair.key.value === '<<') refuse(pair.key, "'<<' is a YAML merge key")
      // A map keyed by names would silently drop it.
      if (isScalar(pair.key) && pair.key.value === '__proto__')
        problems.push(problemAt(pair.key.range?.[0] ?? 0, "unknown key '__proto__'; correct or remove it."))
    },
  })
  return problems
}

const asYamlFile = (file: string, document: Document, counter: LineCounter) => {
  const root = document.contents
  return {
    file,
    value: document.toJS() as unknown,
    /** The place of the value (or the key) at `path`; where it is missing, of the nearest part around it. */
    place: (path: Path, part: 'key' | 'value' = 'value') => placeOf(counter, offsetOf(root, path, part)),
    /** The value at `path` in a few words, for messages. */
    found: (path: Path): string => described(nodeAt(root, path)),
    /** The scalar at `path` exactly as written, without quotes; null when there is none. */
    written: (path: Path): string | null => {
      const node = nodeAt(root, path)
      return isScalar(node) ? (node.source ?? String(node.value)) : null
    },
  }
}

const childOf = (node: unknown, step: string | number): { key: unknown; value: unknown } | null => {
  if (isSeq(node)) {
    const value = node.items[Number(step)]
    return value === undefined ? null : { key: value, value }
  }
  if (!isMap(node)) return null
  const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step))
  return pair === undefined ? null : { key: pair.key, value: pair.value }
}

const nodeAt = (root: unknown, path: Path): unknown => path.reduce<unknown>((node, step) => childOf(node, step)?.value, root)

const offsetOf = (root: unknown, path: Path, part: 'key' | 'value'): number => {
  let offset = startOf(root) ?? 0
  let node = root
  for (const [index, step] of path.entries()) {
    const child = childOf(node, step)
    if (child === null) return offset
    const isLast = index === path.length - 1
    offset = (isLast && part === 'value' ? startOf(child.value) : startOf(child.key)) ?? startOf(child.key) ?? offset
    node = child.value
  }
  return offset
}

const startOf = (node: unknown): number | null =>
  isScalar(node) || isMap(node) || isSeq(node) ? (node.range?.[0] ?? null) : null

const described = (node: unknown): string => {
  if (isMap(node)) return 'a map'
  if (isSeq(node)) return 'a list'
  if (!isScalar(node) || node.value === null) return 'nothing'
  const text = node.source ?? String(node.value)
  return text.length > 60 ? `'${text.slice(0, 57)}...'` : `'${text}'`
}

type Issue = z.core.$ZodIssue

interface Checked {
  readonly schema: z.ZodType
  readonly yaml: YamlFile
  /** The path of the checked value in the file. */
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
  const near = issue.code === 'invalid_value' ? nearest(yaml.written(path) ?? '', issue.values.map(String)) : null
  const missing = found === 'nothing' && !isKey
  const message = missing ? `${show(path)} is missing; expected ${expected}.` : `${show(path)} is ${found}; expected ${expected}.`
  return [
    {
      file: yaml.file,
      ...yaml.place(path, isKey ? 'key' : 'value'),
      message: near === null ? message : `${message} Did you mean '${near}'?`,
    },
  ]
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

// Of a union, show the issues of the branch that got furthest: the one for which the value has the right type.
const fittingBranch = (branches: readonly (readonly Issue[])[]): readonly Issue[] | null => {
  const fitting = branches.filter(
    (issues) => issues.length > 0 && !issues.some(({ path, code }) => path.length === 0 && /^invalid_(type|value)$/.test(code)),
  )
  const few = [...fitting].sort((left, right) => left.length - right.length)[0]
  return few?.some((issue) => issue.code === 'invalid_union' || issue.path.length > 0 || issue.code === 'unrecognized_keys')
    ? few
    : null
}

/** The part of JSON Schema that zod writes and this program reads. */
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

/** `schema` as JSON Schema; parts that JSON Schema cannot express become an empty node. */
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
