// The compiled program: our modules, and the libraries every command needs, in few files. A command that loads 850 modules one by one spends
// a quarter of a second on that alone.
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { basename, join, sep } from 'node:path'
import { type OutputChunk, rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')

/** Of the declared libraries, those that every command reads and that are slow as packages (`npm run bench -- --only status`). All others stay files. */
const compiledIn = new Set(['kysely', 'pino', 'zod'])
/** The bundler's own: it writes a template with </script> in it by this. Nobody installs it. */
const bundlersOwn = '@oxc-project/runtime'

const packageOf = (specifier: string): string => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')

/** What our own code imports by name stays installed, so that a user can override it. What a compiled library imports comes with it. */
const isExternal = (specifier: string, importer: string | undefined): boolean =>
  /^[@a-z]/i.test(specifier) &&
  !specifier.startsWith('node:') &&
  importer !== undefined &&
  !importer.includes(`${sep}node_modules${sep}`) &&
  packageOf(specifier) !== bundlersOwn &&
  !compiledIn.has(packageOf(specifier))

/** Files that are opened by name at run time, and those Node.js and users' repositories start from; by path without ending. */
const entries = (): Record<string, string> => {
  const migrations = readdirSync(join(root, 'migrations')).filter((name) => name.endsWith('.ts'))
  const sources = readdirSync(join(root, 'src', 'sources'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  return {
    'src/index': join(root, 'src', 'index.ts'),
    'src/cli/main': join(root, 'src', 'cli', 'main.ts'),
    ...Object.fromEntries(
      sources.map(({ name }) => [`src/sources/${name}/index`, join(root, 'src', 'sources', name, 'index.ts')]),
    ),
    ...Object.fromEntries(migrations.map((name) => [`migrations/${basename(name, '.ts')}`, join(root, 'migrations', name)])),
  }
}

/** Files that ship as they are. */
const copied = [
  'src/web/assets',
  'src/sources/web-analytics/known-tables.yaml',
  'pipelines',
  'marts',
  'dashboards',
  'semantic',
  'templates',
]

/** Writes the program without its types into `folder`: the JavaScript, the files it reads, the licences of the libraries in it. */
export const writeProgram = async (folder: string): Promise<void> => {
  const chunks = await writeJavaScript(folder)
  for (const path of copied) cpSync(join(root, path), join(folder, path), { recursive: true })
  writeFileSync(join(folder, 'THIRD-PARTY-NOTICES.md'), notices(chunks))
}

const writeJavaScript = async (folder: string): Promise<readonly OutputChunk[]> => {
  const build = await rolldown({
    cwd: root,
    input: entries(),
    platform: 'node',
    external: (specifier, importer) => isExternal(specifier, importer),
    // What a bundler is unsure of would be found out by users.
    onwarn: (warning) => {
      throw new Error(`The bundle is not sound: ${warning.message}`)
    },
  })
  const { output } = await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'src/chunks/[name]-[hash].js',
    comments: { legal: true, annotation: false, jsdoc: false },
  })
  await build.close()
  const chunks = output.filter((file) => file.type === 'chunk')
  assertInstalled(chunks)
  return chunks
}

/** Throws where the program would import what nobody who installs it has. */
const assertInstalled = (chunks: readonly OutputChunk[]): void => {
  const manifest: { dependencies: Record<string, string>; peerDependencies: Record<string, string> } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  )
  // Those that only some need are peers: a chunk that imports one is read by a command that asks for it by name.
  const dependencies = { ...manifest.dependencies, ...manifest.peerDependencies }
  const own = new Set(chunks.map(({ fileName }) => fileName))
  const strangers = chunks
    .flatMap(({ imports, dynamicImports }) => [...imports, ...dynamicImports])
    .filter((name) => !own.has(name) && !isBuiltin(name) && !Object.hasOwn(dependencies, packageOf(name)))
  if (strangers.length > 0)
    throw new Error(`The bundle imports ${[...new Set(strangers)].join(', ')}, which package.json does not name.`)
}

const notices = (chunks: readonly OutputChunk[]): string => {
  const folders = new Set(chunks.flatMap(({ moduleIds }) => moduleIds).flatMap(folderOfPackage))
  return `# Libraries in the compiled program\n\n${[...folders].sort().map(notice).join('\n')}`
}

const folderOfPackage = (module: string): string[] => {
  const [, folder] = /^(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/.exec(module) ?? []
  return folder === undefined ? [] : [folder]
}

const notice = (folder: string): string => {
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
  const { name, version, license }: Record<string, unknown> = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  if (file === undefined) throw new Error(`${folder} comes without the text of its licence`)
  return `## ${String(name)} ${String(version)} (${String(license)})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`
}
