// House rules as tests: who may import whom, sizes, and words that must not stand in the code.
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { describe, expect, test } from 'vitest'
import { circlesOf, figuresOf, type Import, listFiles, readSource, roomGraph, sourceFiles } from '../scripts/structure.ts'

const root = resolve(import.meta.dirname, '..')
const src = join(root, 'src')

const sources = sourceFiles()
const files = sources.map(({ path }) => path)
/** Without what scripts write, such as comments of the migrations. */
const written = sources.filter(({ isGenerated }) => !isGenerated).map(({ path }) => path)
const read = (file: string): string => readFileSync(file, 'utf8')
const withoutComments = (file: string): string => read(file).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
const show = (file: string): string => relative(root, file)
const folderOf = (file: string): string => relative(src, file).split(sep)[0] ?? ''
const importsOf = (file: string): readonly Import[] =>
  sources.find(({ path }) => path === file)?.imports ?? readSource(file).imports

/** The groups of src/README.md, from the ground up: a room imports rooms above it in this list alone. */
const allowed: Record<string, readonly string[]> = {
  core: [],
  db: ['core'],
  ledger: ['core', 'db'],
  definition: ['core'],
  extract: ['core'],
  sources: ['core', 'extract'],
  parse: ['core'],
  load: ['core', 'db'],
  publish: ['core', 'db'],
  plan: ['core', 'definition', 'db', 'ledger', 'extract'],
  run: ['core', 'definition', 'db', 'ledger', 'plan', 'extract', 'sources', 'parse', 'load', 'publish'],
  // What figures mean, and what other tools read of the same files.
  semantic: ['core', 'db', 'definition', 'publish'],
  schedule: ['core', 'db', 'ledger', 'plan', 'extract', 'run'],
  web: ['core', 'definition', 'db', 'ledger', 'plan', 'run', 'schedule'],
  sandbox: ['core'],
  cli: [
    'core',
    'definition',
    'db',
    'ledger',
    'plan',
    'extract',
    'sources',
    'load',
    'publish',
    'run',
    'schedule',
    'semantic',
    'web',
    'sandbox',
  ],
  // The words for sources in a user's own repository.
  'index.ts': ['core', 'extract'],
}

/** By package, the rooms that import it: the table of CONTRIBUTING, so that each can be replaced in one place. */
const owners = new Map(
  [...read(join(root, 'CONTRIBUTING.md')).matchAll(/^\| ([^|]+) \| ([\w, -]+) \| /gm)].flatMap(([, names = '', rooms = '']) =>
    names.split(', ').map((name) => [name.replace(/^-\//, '@opentelemetry/'), rooms] as const),
  ),
)

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

  test('each package is imported by the rooms that CONTRIBUTING names, and by no other', () => {
    const rooms = new Map<string, Set<string>>()
    for (const file of files)
      for (const { specifier, kind } of importsOf(file)) {
        if (kind === 'type' || /^(?:\.|node:)/.test(specifier)) continue
        const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
        rooms.set(name, (rooms.get(name) ?? new Set()).add(folderOf(file)))
      }
    const found = [...rooms].map(([name, its]) => [name, [...its].sort().join(', ')])
    expect(found).toEqual(found.map(([name = '']) => [name, owners.get(name)]))
  })

  test('what only one API has stands in its own folder', () => {
    const words = /WEB_ANALYTICS|\bapi[_-]key\b|website-analysis|\/batch\/|request-(report|status|validate)/i
    // The sandbox is that API, locally.
    const own = (file: string): boolean => /^src\/(sources|sandbox)\//.test(show(file).split(sep).join('/'))
    const wrong = written.filter((file) => !own(file)).filter((file) => words.test(read(file)))
    expect(wrong.map(show)).toEqual([])
    const byName = internalImports
      .filter(({ file, target }) => !own(file) && relative(src, target).startsWith(join('sources', 'web-analytics')))
      .map(({ file }) => show(file))
    // The demo sets the sandbox up as that API.
    expect([...new Set(byName)]).toEqual([join('src', 'cli', 'demo.ts')])
  })

  test('what an API can be asked for, and calls its datasets and dimensions, stands in its folder alone', () => {
    const words = /domain|countr(?:y|ies)|categor(?:y|ies)|keyword|granularit|vtable|shopper|web[-_]analytics/i
    // Texts for people, who need an example; in the code of these files the words are as foreign as elsewhere.
    const withExamples = /^src\/(cli\/(commands(-bi)?|demo|init|main|command-runtime)|definition\/schema(-parts)?)\.ts$/
    // Names that a library and Superset gave.
    const theirs: Readonly<Record<string, string>> = {
      'src/web/charts.ts': 'domain:',
      'src/semantic/superset/superset-chart.ts': 'granularity_sqla',
      'src/semantic/dbt.ts': 'granularity',
      'src/semantic/dbt-metrics.ts': 'granularity',
    }
    const found = files.flatMap((file) => {
      const name = show(file).split(sep).join('/')
      if (/^src\/(sources|sandbox)\//.test(name)) return []
      const code = read(file)
        .replaceAll(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*$/gm, '')
        .replaceAll(withExamples.test(name) ? /'(?:\\.|[^'\\\n])*'|`[^`]*`/g : /$^/g, '')
        .replaceAll(theirs[name] ?? /$^/g, '')
      return code.split('\n').flatMap((line) => (words.test(line) ? [`${name}: ${line.trim()}`] : []))
    })
    expect(found).toEqual([])
  })

  test('no import goes round in a circle: not between files, not between rooms, not for a type', () => {
    const graph = new Map(sources.map(({ path, targets }) => [show(path), targets.map((target) => show(target.path))]))
    expect(circlesOf(graph).map((circle) => circle.join(' > '))).toEqual([])
    expect(circlesOf(roomGraph(sources)).map((circle) => circle.join(' > '))).toEqual([])
  })

  test('at most sixteen rooms, each named in src/README.md, and no file name twice but index.ts', () => {
    const rooms = [...new Set(files.map(folderOf))].filter((folder) => !folder.endsWith('.ts'))
    expect(rooms.length).toBeLessThanOrEqual(16)
    const plan = read(join(src, 'README.md'))
    expect(rooms.filter((room) => !plan.includes(`\`${room}/\``))).toEqual([])
    const names = Map.groupBy(files, (file) => basename(file))
    expect([...names].filter(([name, all]) => name !== 'index.ts' && all.length > 1).map(([name]) => name)).toEqual([])
  })

  test('files and functions stay small, few files have one reader, and about one line in eight is a comment', () => {
    const figures = figuresOf(sources)
    expect(figures.functionsP95).toBeLessThanOrEqual(30)
    expect(figures.longestFunction).toBeLessThanOrEqual(70)
    // A fifth. It may shrink.
    expect(figures.singleImporter / figures.files).toBeLessThanOrEqual(0.201)
    expect(figures.linesPerComment).toBeGreaterThan(7)
    expect(figures.linesPerComment).toBeLessThan(9.5)
  })

  test('raw statements take the types of their rows from the tables', () => {
    // What is left is computed as a whole. It may shrink.
    expect(figuresOf(sources).handTypedRows).toBeLessThanOrEqual(2)
  })

  test('comments cite pages that are in the repository', () => {
    const cited = /(?:docs|test|src|scripts|pipelines|migrations|marts|examples)\/[\w./-]+\.(?:md|ts|yaml|sql)\b/g
    const wrong = [...files, ...listFiles(join(root, 'migrations'))].flatMap((file) =>
      [...(read(file).match(/^\s*(?:\/\/|\/?\*).*$/gm) ?? [])]
        .flatMap((line) => [...line.matchAll(cited)].map(([path]) => path))
        .filter((path) => !existsSync(join(root, path)))
        .map((path) => `${show(file)} cites ${path}`),
    )
    expect(wrong).toEqual([])
  })

  test('the warehouse has one type', () => {
    const other = /(?<!new )Kysely<Tables>/
    expect(files.filter((file) => other.test(read(file))).map(show)).toEqual([join('src', 'db', 'tables.ts')])
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
    expect([...seen].filter((name) => /^(@(aws-sdk|opentelemetry|modelcontextprotocol)\/|hyparquet-writer$)/.test(name))).toEqual(
      [],
    )
  })

  test('95 % of files have at most 300 lines, and none has over 450', () => {
    const lines = written.map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
    expect(lines.filter((one) => one.lines > 450).map(({ file }) => show(file))).toEqual([])
    expect(lines.filter((one) => one.lines <= 300).length / lines.length).toBeGreaterThanOrEqual(0.95)
  })

  test('every file opens by saying what it owns', () => {
    expect(files.filter((file) => !/^(#!.*\n)?(\/\/|\/\*)/.test(read(file))).map(show)).toEqual([])
  })

  test('no file hides a type, an error or a test', () => {
    const forbidden =
      /\bas any\b|: any\s*[,;)=\]>|&{}]|<any>|@ts-ignore|@ts-expect-error|catch \{\s*\}|catch \(\w+\) \{\s*\}|\b(?:describe|test|it)\.(?:only|skip)\(/
    const tests = listFiles(join(root, 'test')).filter((file) => !file.endsWith('house.test.ts'))
    expect([...files, ...tests].filter((file) => forbidden.test(withoutComments(file))).map(show)).toEqual([])
  })

  test('only errors are classes, and what extends a class of a library', () => {
    expect(files.filter((file) => /^\s*(export )?class (?!\w*Error\b|\w+ extends pg\.)/m.test(read(file))).map(show)).toEqual([])
  })

  test('what a file exports another file names', () => {
    const all = ['src', 'test', 'scripts', 'bench', 'bin'].flatMap((folder) => listFiles(join(root, folder)))
    const readers = new Map<string, number>()
    for (const file of all.filter((one) => one !== import.meta.filename))
      for (const word of new Set(withoutComments(file).match(/\w+/g))) readers.set(word, (readers.get(word) ?? 0) + 1)
    const exported = /^export (?:async )?(?:const|function\*?|type|interface|class) (\w+)/gm
    const unused = written.flatMap((file) =>
      [...read(file).matchAll(exported)]
        .filter(([, name = '']) => readers.get(name) === 1)
        .map(([, name]) => `${show(file)} exports ${name}`),
    )
    // The compiler writes these into the types of other exports.
    expect(unused).toEqual([
      'src/sandbox/report-jobs.ts exports NewReport',
      'src/sandbox/vendor/vendor-books.ts exports BoughtReport',
    ])
  })

  test('migrations import nothing of ours', () => {
    const migrations = listFiles(join(root, 'migrations'))
    expect(migrations.filter((file) => importsOf(file).some(({ specifier }) => specifier.startsWith('.'))).map(show)).toEqual([])
  })
})
