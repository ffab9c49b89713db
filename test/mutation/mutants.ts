// Small wrong turns in a TypeScript file, each one a mutant: found in the syntax tree, so that every one of them still parses.
import { parse } from '@babel/parser'
import { type Edit, sqlEdits } from './sql-mutants.ts'

export interface Mutant {
  readonly file: string
  readonly line: number
  readonly kind: string
  readonly before: string
  readonly after: string
  /** The whole file with the wrong turn in it. */
  readonly source: string
}

/** A node of the tree as far as anyone here looks at it. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && 'start' in value && typeof value.start === 'number'

const operators: Readonly<Record<string, string>> = {
  '===': '!==',
  '!==': '===',
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '&&': '||',
  '||': '&&',
  '-': '+',
  '*': '/',
  '/': '*',
  '**': '*',
}
const compared: Readonly<Record<string, string>> = {
  "'='": "'<>'",
  "'>='": "'>'",
  "'in'": "'not in'",
  "'is'": "'is not'",
  "'is not'": "'is'",
  "'desc'": "'asc'",
}
const optionalCalls = new Set(['where', 'orderBy', 'limit', 'distinct', 'forUpdate', 'forShare'])

const child = (node: Node, field: string): Node | null => {
  const value = node[field]
  return isNode(value) ? value : null
}

const withinText = (source: string, node: Node, what: string): Edit[] => {
  const [left, right] = [child(node, 'left'), child(node, 'right')]
  const operator = node['operator']
  if (left === null || right === null || typeof operator !== 'string') return []
  const at = source.indexOf(operator, left.end)
  if (at === -1 || at > right.start) return []
  // A literal there is what the types ask for of a row that is always there.
  if (operator === '??')
    return /Literal$/.test(right.type) ? [] : [{ kind: '?? left out', start: left.end, end: right.end, text: '' }]
  const swapped = operators[operator]
  return swapped === undefined
    ? []
    : [{ kind: `${what} ${operator} > ${swapped}`, start: at, end: at + operator.length, text: swapped }]
}

const condition = (node: Node): Edit[] => {
  const test = child(node, 'test')
  if (test === null) return []
  return ['true', 'false'].map((text) => ({ kind: `condition > ${text}`, start: test.start, end: test.end, text }))
}

const leftOut = (node: Node, kind: string): Edit[] => [{ kind, start: node.start, end: node.end, text: ';' }]

/** `query.where(…)` without the call. */
const callLeftOut = (node: Node): Edit[] => {
  const callee = child(node, 'callee')
  const property = callee === null ? null : child(callee, 'property')
  const object = callee === null ? null : child(callee, 'object')
  const name = property?.['name']
  if (object === null || typeof name !== 'string' || !optionalCalls.has(name)) return []
  return [{ kind: `.${name}() left out`, start: object.end, end: node.end, text: '' }]
}

/** Columns of `.set({…})` and `.values({…})` left out, but for moments nobody decides by. */
const columnsLeftOut = (source: string, node: Node): Edit[] => {
  const callee = child(node, 'callee')
  const name = callee === null ? null : child(callee, 'property')?.['name']
  const [first] = Array.isArray(node['arguments']) ? node['arguments'] : []
  if ((name !== 'set' && name !== 'values') || !isNode(first) || first.type !== 'ObjectExpression') return []
  const properties = Array.isArray(first['properties']) ? first['properties'].filter(isNode) : []
  return properties
    .filter((property) => !/^(updated_at|finished_at|created_at)\b/.test(source.slice(property.start, property.end)))
    .map((property) => ({
      kind: 'column left out',
      start: property.start,
      end: source.charAt(property.end) === ',' ? property.end + 1 : property.end,
      text: '',
    }))
}

const editsOf = (node: Node, source: string): Edit[] => {
  const text = source.slice(node.start, node.end)
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression':
      return withinText(source, node, 'operator')
    case 'IfStatement':
    case 'ConditionalExpression':
      return condition(node)
    case 'ExpressionStatement':
      return leftOut(node, 'statement left out')
    case 'ThrowStatement':
      return leftOut(node, 'throw left out')
    case 'BooleanLiteral':
      return [{ kind: 'boolean', start: node.start, end: node.end, text: text === 'true' ? 'false' : 'true' }]
    case 'UnaryExpression':
      return node['operator'] === '!' ? [{ kind: '! left out', start: node.start, end: node.start + 1, text: '' }] : []
    case 'StringLiteral': {
      const other = compared[text]
      return other === undefined ? [] : [{ kind: `${text} > ${other}`, start: node.start, end: node.end, text: other }]
    }
    case 'CallExpression':
      return [...callLeftOut(node), ...columnsLeftOut(source, node)]
    case 'TaggedTemplateExpression': {
      const tag = child(node, 'tag')
      const quasi = child(node, 'quasi')
      if (tag?.['name'] !== 'sql' || quasi === null) return []
      const start = quasi.start + 1
      return sqlEdits(source.slice(start, quasi.end - 1)).map((edit) => ({
        ...edit,
        start: edit.start + start,
        end: edit.end + start,
      }))
    }
    default:
      return []
  }
}

/** Types and messages are not looked into: the one does not run, the other is read by people. */
const skipped = (node: Node): boolean =>
  node.type.startsWith('TS') ||
  node.type === 'TemplateLiteral' ||
  node.type === 'ImportDeclaration' ||
  (node.type === 'ExportNamedDeclaration' && child(node, 'declaration') === null)

const walk = (node: Node, visit: (node: Node) => void): void => {
  if (skipped(node) && !['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression'].includes(node.type)) return
  visit(node)
  // The words of a statement have been looked at whole; what stands in its holes is code.
  const within = node.type === 'TaggedTemplateExpression' ? child(node, 'quasi')?.['expressions'] : null
  if (Array.isArray(within)) for (const one of within) if (isNode(one)) walk(one, visit)
  for (const value of Object.values(node))
    for (const one of Array.isArray(value) ? value : [value]) if (isNode(one)) walk(one, visit)
}

const parses = (source: string): boolean => {
  try {
    parse(source, { sourceType: 'module', plugins: ['typescript'] })
    return true
  } catch {
    return false
  }
}

/** Every mutant of one file. */
export const mutantsOf = (file: string, source: string): Mutant[] => {
  const edits: Edit[] = []
  const tree: unknown = parse(source, { sourceType: 'module', plugins: ['typescript'] }).program
  if (isNode(tree)) walk(tree, (node) => edits.push(...editsOf(node, source)))
  return edits
    .map((edit) => ({
      file,
      line: source.slice(0, edit.start + (edit.text === '' ? 1 : 0)).split('\n').length,
      kind: edit.kind,
      before: source.slice(edit.start, edit.end).replaceAll(/\s+/g, ' ').slice(0, 100),
      after: edit.text,
      source: source.slice(0, edit.start) + edit.text + source.slice(edit.end),
    }))
    .filter((mutant) => parses(mutant.source))
}
