// House rules as tests: who may import whom, sizes, and words that must not stand in the code.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  circlesOf,
  drawing,
  figuresOf,
  type Import,
  listFiles,
  page,
  readSource,
  roomGraph,
  sourceFiles,
  written,
} from '../scripts/structure.ts'

const root = resolve(import.meta.dirname, '..')
const src = join(root, 'src')

const sources = sourceFiles()
const files = sources.map(({ path }) => path)
const read = (file: string): string => readFileSync(file, 'utf8')
const show = (file: string): string => relative(root, file)
const folderOf = (file: string): string => relative(src, file).split(sep)[0] ?? ''
const importsOf = (file: string): readonly Import[] =>
  sources.find(({ path }) => path === file)?.imports ?? readSource(file).imports

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
  // What a run asks for and what it may cost, over the ledger and the services; `plan` is the arithmetic alone.
  planning: ['core', 'config', 'definition', 'db', 'ledger', 'plan', 'extract', 'pipeline'],
  notify: ['core', 'config', 'ledger', 'pipeline'],
  schedule: ['core', 'config', 'db', 'ledger', 'plan', 'extract', 'pipeline', 'planning', 'notify'],
  check: [
    'core',
    'config',
    'definition',
    'db',
    'ledger',
    'extract',
    'sources',
    'load',
    'publish',
    'pipeline',
    'planning',
    'reads',
    'notify',
    'semantic',
  ],
  export: ['core', 'db'],
  // What figures mean: questions as SQL, answers, and what other tools read of the same files.
  semantic: ['core', 'db', 'definition'],
  mcp: ['core', 'definition', 'semantic'],
  superset: ['core', 'definition', 'semantic'],
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
    'planning',
    'reads',
    'notify',
    'schedule',
    'check',
    'export',
    'semantic',
    'mcp',
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
  // Attribute files are small, and read as they are checked.
  'csv-parse': ['parse', 'definition'],
  'node-cron': ['plan', 'schedule', 'definition'],
  dotenv: ['config'],
  nodemailer: ['notify'],
  pino: ['core'],
  yaml: ['definition'],
  commander: ['cli'],
  'cli-progress': ['cli'],
  'string-width': ['cli'],
  hono: ['web'],
  'prom-client': ['web'],
  '@observablehq/plot': ['web'],
  '@opentelemetry/api': ['cli'],
  '@modelcontextprotocol/server': ['mcp'],
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

  test('what an API can be asked for, and calls its datasets and dimensions, stands in its folder alone', () => {
    const words = /domain|countr(?:y|ies)|categor(?:y|ies)|keyword|granularit|vtable|shopper|web[-_]analytics/i
    // Texts for people, who need an example; in the code of these files the words are as foreign as elsewhere.
    const withExamples = /^src\/(cli\/(commands(-bi)?|demo|main|only)|definition\/schema(-parts)?)\.ts$/
    // Names that a library and Superset gave.
    const theirs: Readonly<Record<string, string>> = {
      'src/web/chart.ts': 'domain:',
      'src/superset/superset-form.ts': 'granularity_sqla',
      'src/semantic/dbt.ts': 'granularity',
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

  test('the picture in docs/architecture.md names every file and draws every arrow; `npm run structure` draws it anew', () => {
    expect(written(read(page), 'house')).toBe(drawing(sources))
  })

  test('files and functions stay small, few files have one reader, and about one line in eight is a comment', () => {
    const figures = figuresOf(sources)
    expect(figures.smallFiles).toBeGreaterThanOrEqual(0.95)
    expect(figures.functionsP95).toBeLessThanOrEqual(30)
    expect(figures.longestFunction).toBeLessThanOrEqual(70)
    expect(figures.singleImporter / figures.files).toBeLessThanOrEqual(0.36)
    expect(figures.linesPerComment).toBeGreaterThan(7)
    expect(figures.linesPerComment).toBeLessThan(9.5)
  })

  test('raw statements take the types of their rows from the tables', () => {
    // What is left is computed as a whole. It may shrink.
    expect(figuresOf(sources).handTypedRows).toBeLessThanOrEqual(2)
  })

  test('comments are in plain words', () => {
    const odd =
      /\b(?:mend(?:s|ed)?|heal(?:s|ed)?|spare[ds]|put on record|editions?|the long way|as any other|looked at once|nothing but time|by force)\b/i
    const wrong = [...files, ...listFiles(join(root, 'test', 'support'))].flatMap((file) =>
      (read(file).match(/^\s*(?:\/\/|\/?\*).*$/gm) ?? [])
        .filter((line) => odd.test(line))
        .map((line) => `${show(file)}: ${line.trim()}`),
    )
    expect(wrong).toEqual([])
  })

  test('comments cite pages that are in the repository', () => {
    const cited = /(?:docs|test|src|scripts|pipelines|migrations|marts|examples)\/[\w./-]+\.(?:md|ts|yaml|sql)\b/g
    const wrong = files.flatMap((file) =>
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
