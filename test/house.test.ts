// House rules as tests: who may import whom, sizes, and words that must not stand in the code.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { parse } from '@babel/parser'
import { describe, expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '..')
const src = join(root, 'src')

const listFiles = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))

const files = listFiles(src)
const read = (file: string): string => readFileSync(file, 'utf8')
const show = (file: string): string => relative(root, file)
const folderOf = (file: string): string => relative(src, file).split(sep)[0] ?? ''

interface Import {
  readonly specifier: string
  /** `type`: gone when the program runs. `later`: at the moment of need. */
  readonly kind: 'type' | 'fixed' | 'later'
}

/** Read with a parser: imports of several lines, exports and import() included. */
const importsOf = (file: string): Import[] => {
  const known = parsed.get(file)
  if (known !== undefined) return known
  const { program } = parse(read(file), { sourceType: 'module', plugins: ['typescript'], createImportExpressions: true })
  const found: Import[] = []
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) for (const one of node) visit(one)
    if (Array.isArray(node) || typeof node !== 'object' || node === null || !('type' in node)) return
    const { type, source } = node as { type: string; source?: { value?: unknown } | null }
    if (/^(Import|ExportNamed|ExportAll)Declaration$|^ImportExpression$/.test(type) && typeof source?.value === 'string')
      found.push({ specifier: source.value, kind: kindOf(node) })
    for (const [key, value] of Object.entries(node)) if (key !== 'loc') visit(value)
  }
  visit(program.body)
  parsed.set(file, found)
  return found
}

const parsed = new Map<string, Import[]>()

const kindOf = (node: object): Import['kind'] => {
  const { type, importKind, exportKind, specifiers } = node as Record<string, unknown>
  if (type === 'ImportExpression') return 'later'
  if (importKind === 'type' || exportKind === 'type') return 'type'
  const names = Array.isArray(specifiers) ? specifiers : []
  const areTypes = names.length > 0 && names.every((one) => one.importKind === 'type' || one.exportKind === 'type')
  return areTypes ? 'type' : 'fixed'
}

const allowed: Record<string, readonly string[]> = {
  core: [],
  config: ['core'],
  definition: ['core'],
  db: ['core'],
  ledger: ['core', 'db'],
  plan: ['core'],
  // JSON as places in bytes: read once by the source, for its paging and for the rows.
  json: ['core'],
  extract: ['core', 'config', 'json'],
  // Each API reads its own settings, with the readers of `config`.
  sources: ['core', 'config', 'json', 'extract'],
  parse: ['core', 'json'],
  load: ['core', 'db'],
  publish: ['core', 'db'],
  reads: ['core', 'db'],
  pipeline: ['core', 'config', 'definition', 'db', 'ledger', 'plan', 'extract', 'sources', 'parse', 'load', 'publish'],
  notify: ['core', 'config', 'ledger', 'pipeline', 'schedule'],
  schedule: ['core', 'config', 'db', 'pipeline', 'notify'],
  check: ['core', 'config', 'definition', 'db', 'ledger', 'extract', 'sources', 'load', 'publish', 'pipeline', 'reads'],
  export: ['core', 'db'],
  superset: ['core', 'config', 'definition'],
  cli: [
    'core',
    'config',
    'definition',
    'db',
    'ledger',
    'plan',
    'extract',
    'sources',
    'publish',
    'pipeline',
    'reads',
    'notify',
    'schedule',
    'check',
    'export',
    'superset',
    'web',
    'sandbox',
  ],
  web: ['core', 'config', 'definition', 'db', 'ledger', 'pipeline', 'reads', 'schedule'],
  sandbox: ['core'],
  // The words for sources in a user's own repository.
  'index.ts': ['core', 'config', 'extract'],
}

/** Packages that only one folder may import, so that each can be replaced in one place. */
const owners: Record<string, readonly string[]> = {
  pg: ['db'],
  'pg-copy-streams': ['db'],
  undici: ['extract'],
  '@aws-sdk/client-s3': ['extract'],
  'csv-parse': ['parse'],
  'node-cron': ['schedule', 'definition'],
  dotenv: ['config'],
  pino: ['core'],
  yaml: ['definition'],
  commander: ['cli'],
  'cli-progress': ['cli'],
  hono: ['web'],
  'prom-client': ['web'],
  '@observablehq/plot': ['web'],
  '@opentelemetry/api': ['cli'],
}

const internalImports = files.flatMap((file) =>
  importsOf(file)
    .filter(({ specifier }) => specifier.startsWith('.'))
    .map(({ specifier, kind }) => ({ file, target: resolve(dirname(file), specifier), kind })),
)

describe('the house', () => {
  test('each folder imports only the folders it may', () => {
    const wrong = internalImports
      .filter(({ file, target }) => target.startsWith(src) && folderOf(file) !== folderOf(target))
      .filter(({ file, target }) => !(allowed[folderOf(file)] ?? []).includes(folderOf(target)))
      .map(({ file, target }) => `${show(file)} imports ${show(target)}`)
    expect(wrong).toEqual([])
  })

  test('every folder under src has a rule', () => {
    expect([...new Set(files.map(folderOf))].filter((folder) => !(folder in allowed) && !folder.endsWith('.ts'))).toEqual([])
  })

  test('each package is imported from the one folder that owns it', () => {
    const wrong = files.flatMap((file) =>
      importsOf(file)
        .map(({ specifier }) =>
          specifier
            .split('/')
            .slice(0, specifier.startsWith('@') ? 2 : 1)
            .join('/'),
        )
        .filter((name) => name in owners && !(owners[name] ?? []).includes(folderOf(file)))
        .map((name) => `${show(file)} imports ${name}`),
    )
    expect(wrong).toEqual([])
  })

  test('what only one API has stands in its own folder', () => {
    const words = /WEB_ANALYTICS|\bapi[_-]key\b|website-analysis|\/batch\/|request-(report|status|validate)/i
    // The sandbox is that API, locally, and its command says how it is asked.
    const own = (file: string): boolean =>
      /^src\/(sources|sandbox)\/|^src\/cli\/sandbox\.ts$/.test(show(file).split(sep).join('/'))
    const wrong = files.filter((file) => !own(file)).filter((file) => words.test(read(file)))
    expect(wrong.map(show)).toEqual([])
    const byName = internalImports
      .filter(({ file, target }) => !own(file) && relative(src, target).startsWith(join('sources', 'web-analytics')))
      .map(({ file }) => show(file))
    // The demo sets the sandbox up as that API.
    expect([...new Set(byName)]).toEqual([join('src', 'cli', 'demo.ts')])
  })

  test('no import goes round in a circle', () => {
    const graph = new Map<string, string[]>()
    for (const { file, target, kind } of internalImports) {
      if (kind === 'type') continue
      graph.set(file, [...(graph.get(file) ?? []), target])
    }
    const state = new Map<string, 'open' | 'done'>()
    const circles: string[] = []
    const visit = (file: string, path: string[]): void => {
      if (state.get(file) === 'done') return
      if (state.get(file) === 'open') {
        circles.push([...path.slice(path.indexOf(file)), file].map(show).join(' > '))
        return
      }
      state.set(file, 'open')
      for (const target of graph.get(file) ?? []) visit(target, [...path, file])
      state.set(file, 'done')
    }
    for (const file of graph.keys()) visit(file, [])
    expect(circles).toEqual([])
  })

  test('packages that few need are reached only by an import at the moment of need', () => {
    const graph = new Map<string, string[]>()
    for (const file of files) {
      const fixed = importsOf(file).filter(({ kind }) => kind === 'fixed')
      graph.set(
        file,
        fixed.map(({ specifier }) => (specifier.startsWith('.') ? resolve(dirname(file), specifier) : specifier)),
      )
    }
    const seen = new Set<string>()
    const visit = (file: string): void => {
      if (seen.has(file)) return
      seen.add(file)
      for (const target of graph.get(file) ?? []) visit(target)
    }
    for (const file of files.filter((each) => ['cli', 'index.ts'].includes(folderOf(each)))) visit(file)
    expect(seen).toContain('undici')
    expect([...seen].filter((name) => /^@(aws-sdk|opentelemetry)\//.test(name))).toEqual([])
  })

  test('no source file is longer than 300 lines', () => {
    expect(files.filter((file) => read(file).split('\n').length > 301).map(show)).toEqual([])
  })

  test('every file opens by saying what it owns', () => {
    expect(files.filter((file) => !/^(#!.*\n)?(\/\/|\/\*)/.test(read(file))).map(show)).toEqual([])
  })

  test('no file hides a type, an error or a test', () => {
    const forbidden =
      /\bas any\b|: any\s*[,;)=\]>|&{}]|<any>|@ts-ignore|@ts-expect-error|catch \{\s*\}|catch \(\w+\) \{\s*\}|\b(?:describe|test|it)\.(?:only|skip)\(/
    const tests = listFiles(join(root, 'test')).filter((file) => !file.endsWith('house.test.ts'))
    const code = (file: string): string => read(file).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    expect([...files, ...tests].filter((file) => forbidden.test(code(file))).map(show)).toEqual([])
  })

  test('only errors are classes', () => {
    expect(files.filter((file) => /^\s*(export )?class (?!\w*Error\b)/m.test(read(file))).map(show)).toEqual([])
  })

  test('migrations import nothing of ours', () => {
    const migrations = listFiles(join(root, 'migrations'))
    expect(migrations.filter((file) => importsOf(file).some(({ specifier }) => specifier.startsWith('.'))).map(show)).toEqual([])
  })
})
