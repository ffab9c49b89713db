// The structure of src as its own imports and comments show it: measured for test/house.test.ts, printed by `npm run structure`.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { parse } from '@babel/parser'

const root = resolve(import.meta.dirname, '..')
const src = join(root, 'src')

export interface Import {
  readonly specifier: string
  /** `type`: gone when the program runs. `later`: at the moment of need. */
  readonly kind: 'type' | 'fixed' | 'later'
}

export interface SourceFile {
  readonly path: string
  /** Written by a script, and not to be held in the head: it counts in no figure. */
  readonly isGenerated: boolean
  /** Folder under src; the file's own name where it lies in none. */
  readonly room: string
  readonly lines: number
  /** Lines that hold a comment and nothing else. */
  readonly commentLines: number
  readonly imports: readonly Import[]
  /** Those of our own, as paths. */
  readonly targets: readonly { readonly path: string; readonly kind: Import['kind'] }[]
  /** Lines of each function that has more than one. */
  readonly functions: readonly number[]
  /** Raw statements whose row type is written out beside them instead of taken from `Tables` (src/db/typed-row.ts). */
  readonly handTypedRows: number
  /** Names that are exported without a comment and are more than a plain constant. */
  readonly undocumented: readonly string[]
}

export const listFiles = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()

type Node = Readonly<Record<string, unknown>> & { readonly type: string }

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value

const eachNode = (value: unknown, visit: (node: Node) => void): void => {
  if (Array.isArray(value)) for (const one of value) eachNode(one, visit)
  else if (isNode(value)) {
    visit(value)
    for (const [key, child] of Object.entries(value)) if (key !== 'loc' && !key.endsWith('omments')) eachNode(child, visit)
  }
}

const kindOf = ({ type, importKind, exportKind, specifiers }: Node): Import['kind'] => {
  if (type === 'ImportExpression') return 'later'
  if (importKind === 'type' || exportKind === 'type') return 'type'
  const names = Array.isArray(specifiers) ? specifiers : []
  const areTypes = names.length > 0 && names.every((one) => one.importKind === 'type' || one.exportKind === 'type')
  return areTypes ? 'type' : 'fixed'
}

const importOf = (node: Node): Import | null => {
  const source = node['source']
  if (!/^(Import|ExportNamed|ExportAll)Declaration$|^ImportExpression$/.test(node.type) || !isNode(source)) return null
  return typeof source['value'] === 'string' ? { specifier: source['value'], kind: kindOf(node) } : null
}

const linesOf = ({ loc }: Node): number => {
  const { start, end } = loc as { start: { line: number }; end: { line: number } }
  return end.line - start.line + 1
}

const functionTypes = new Set([
  'FunctionDeclaration',
  'ArrowFunctionExpression',
  'FunctionExpression',
  'ObjectMethod',
  'ClassMethod',
])

/** Exported names whose statement no comment stands before; constants of a plain value and types that only rename say enough themselves. */
const undocumentedIn = (body: readonly Node[]): string[] =>
  body.flatMap((statement) => {
    const declaration = statement['declaration']
    if (statement.type !== 'ExportNamedDeclaration' || !isNode(declaration)) return []
    if (Array.isArray(statement['leadingComments']) && statement['leadingComments'].length > 0) return []
    const [first] = Array.isArray(declaration['declarations']) ? declaration['declarations'] : [declaration]
    const id: unknown = first?.id
    return isNode(id) ? [String(id['name'])] : []
  })

/** Whether the type is, or names, an object type that this file spells out for itself. @param spelled interfaces that extend nothing and that nobody else gets */
const isSpelledOut = (type: unknown, spelled: ReadonlySet<string>): boolean => {
  let found = false
  eachNode(type, (node) => {
    const name = node.type === 'TSTypeReference' && isNode(node['typeName']) ? node['typeName']['name'] : null
    if (node.type === 'TSTypeLiteral' || spelled.has(String(name))) found = true
  })
  return found
}

/** Of sql<Row>`…`, and of query<Row>(db)`…` (src/db/typed-row.ts). */
const rowTypeOf = ({ typeArguments, tag }: Node): unknown => typeArguments ?? (isNode(tag) ? tag['typeArguments'] : null)

/** Interfaces of the file's own that extend nothing. An exported one is a shape that others read, and documented as such. */
const ownInterfaces = (body: readonly Node[]): Set<string> =>
  new Set(
    body.flatMap(({ type, id, extends: bases }) =>
      type === 'TSInterfaceDeclaration' && isNode(id) && !(Array.isArray(bases) && bases.length > 0) ? [String(id['name'])] : [],
    ),
  )

/** Read with a parser: imports of several lines, exports and import() included. */
export const readSource = (path: string): SourceFile => {
  const text = readFileSync(path, 'utf8')
  const { program, comments } = parse(text, { sourceType: 'module', plugins: ['typescript'], createImportExpressions: true })
  const imports: Import[] = []
  const functions: number[] = []
  const spelled = ownInterfaces(program.body as unknown as Node[])
  let handTypedRows = 0
  eachNode(program.body, (node) => {
    const found = importOf(node)
    if (found !== null) imports.push(found)
    if (functionTypes.has(node.type) && linesOf(node) > 1) functions.push(linesOf(node))
    if (node.type === 'TaggedTemplateExpression' && isSpelledOut(rowTypeOf(node), spelled)) handTypedRows += 1
  })
  const lines = text.split('\n')
  const commented = new Set<number>()
  for (const { loc } of comments ?? [])
    for (let line = loc?.start.line ?? 1; line <= (loc?.end.line ?? 0); line += 1)
      if (/^(\/\/|\/\*|\*)/.test(lines[line - 1]?.trim() ?? '')) commented.add(line)
  return {
    path,
    isGenerated: text.startsWith('// Generated by'),
    room: relative(src, path).split(sep)[0] ?? '',
    lines: lines.filter((line) => line.trim() !== '').length,
    commentLines: commented.size,
    imports,
    targets: imports
      .filter(({ specifier }) => specifier.startsWith('.'))
      .map(({ specifier, kind }) => ({ path: resolve(dirname(path), specifier), kind })),
    functions,
    handTypedRows,
    undocumented: undocumentedIn(program.body as unknown as Node[]),
  }
}

let known: readonly SourceFile[] | null = null

/** Every file of src, read once. */
export const sourceFiles = (): readonly SourceFile[] => {
  known ??= listFiles(src).map(readSource)
  return known
}

/** Circles in a graph, each as the names along it; none twice. */
export const circlesOf = (graph: ReadonlyMap<string, readonly string[]>): string[][] => {
  const state = new Map<string, 'open' | 'done'>()
  const circles: string[][] = []
  const visit = (name: string, path: readonly string[]): void => {
    if (state.get(name) === 'done') return
    if (state.get(name) === 'open') {
      circles.push([...path.slice(path.indexOf(name)), name])
      return
    }
    state.set(name, 'open')
    for (const target of graph.get(name) ?? []) visit(target, [...path, name])
    state.set(name, 'done')
  }
  for (const name of graph.keys()) visit(name, [])
  return circles
}

/** Which rooms each room imports, types included. */
export const roomGraph = (files: readonly SourceFile[]): Map<string, string[]> => {
  const roomOf = new Map(files.map(({ path, room }) => [path, room]))
  const graph = new Map<string, Set<string>>()
  for (const { room, targets } of files) {
    const rooms = graph.get(room) ?? new Set<string>()
    graph.set(room, rooms)
    for (const { path } of targets) {
      const target = roomOf.get(path)
      if (target !== undefined && target !== room) rooms.add(target)
    }
  }
  return new Map([...graph].map(([room, rooms]) => [room, [...rooms].sort()]))
}

export interface Figures {
  readonly rooms: number
  readonly files: number
  /** Share of the files with 300 lines or fewer, blank ones not counted. */
  readonly smallFiles: number
  readonly longestFile: number
  /** Lines of functions that have more than one. */
  readonly functionsP95: number
  readonly longestFunction: number
  /** Files that one other file imports. */
  readonly singleImporter: number
  /** Lines of code and comment for one of comment. */
  readonly linesPerComment: number
  readonly handTypedRows: number
}

export const figuresOf = (all: readonly SourceFile[]): Figures => {
  const files = all.filter(({ isGenerated }) => !isGenerated)
  const importers = new Map<string, Set<string>>(files.map(({ path }) => [path, new Set()]))
  for (const { path, targets } of files) for (const target of targets) importers.get(target.path)?.add(path)
  const functions = files.flatMap((file) => file.functions).sort((a, b) => a - b)
  const sum = (of: (file: SourceFile) => number): number => files.reduce((total, file) => total + of(file), 0)
  return {
    rooms: [...roomGraph(files).keys()].filter((room) => !room.endsWith('.ts')).length,
    files: files.length,
    smallFiles: files.filter(({ lines }) => lines <= 300).length / files.length,
    longestFile: Math.max(...files.map(({ lines }) => lines)),
    functionsP95: functions[Math.floor(functions.length * 0.95)] ?? 0,
    longestFunction: functions.at(-1) ?? 0,
    singleImporter: [...importers.values()].filter(({ size }) => size === 1).length,
    linesPerComment: sum(({ lines }) => lines) / sum(({ commentLines }) => commentLines),
    handTypedRows: sum((file) => file.handTypedRows),
  }
}

const percent = (share: number): string => `${(share * 100).toFixed(1)} %`

const figureRows = (figures: Figures): string[] => [
  '| figure | now |',
  '| --- | --- |',
  `| rooms, files | ${figures.rooms}, ${figures.files} |`,
  `| files of 300 lines or fewer (blank lines not counted) | ${percent(figures.smallFiles)}; the longest has ${figures.longestFile} |`,
  `| lines of a function, of those with more than one: 95th percentile | ${figures.functionsP95}; the longest has ${figures.longestFunction} |`,
  `| files that one other file imports | ${figures.singleImporter} of ${figures.files} (${percent(figures.singleImporter / figures.files)}) |`,
  `| raw statements with a row type written by hand | ${figures.handTypedRows} |`,
  `| lines for one line of comment | ${figures.linesPerComment.toFixed(1)} |`,
]

if (import.meta.main) {
  const files = sourceFiles().filter(({ isGenerated }) => !isGenerated)
  const graph = roomGraph(files)
  const lines = (own: readonly SourceFile[]): number =>
    own.reduce((total, { path }) => total + readFileSync(path, 'utf8').split('\n').length - 1, 0)
  for (const [room, own] of Map.groupBy(files, (file) => file.room))
    console.log(
      `${room.padEnd(12)} ${String(own.length).padStart(4)} files ${String(lines(own)).padStart(6)} lines  -> ${(graph.get(room) ?? []).join(' ')}`,
    )
  console.log(`${'src'.padEnd(12)} ${String(files.length).padStart(4)} files ${String(lines(files)).padStart(6)} lines`)
  console.log(figureRows(figuresOf(files)).join('\n'))
}
