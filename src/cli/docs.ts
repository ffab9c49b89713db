// `millrace docs`: generates all pages and files from the definitions, the marts and the semantic files.
import { existsSync } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { makeFolders } from '../core/disk-error.ts'
import { loadDashboards } from '../definition/dashboards.ts'
import { loadMarts } from '../definition/marts.ts'
import { loadSemantics } from '../definition/semantic-model.ts'
import { dataDictionary } from '../publish/dictionary.ts'
import { describedViews } from '../publish/view-columns.ts'
import { openDefinitions, ownFolders } from '../run/open-runtime.ts'
import { assistantsMark, llmsText } from '../semantic/explain.ts'
import { semanticDocuments } from '../semantic/documents.ts'
import { connectionFile, defaultConnection, supersetBundle } from '../semantic/superset/superset-bundle.ts'
import { pipelinesFolder } from './command-runtime.ts'
import type { CommandSpec, Handler } from './command-spec.ts'

/** With `--check`, exit code 1 where a file is out of date. */
export const docs: Handler = async (invocation) => {
  const { folder, options, output } = invocation
  const check = options['check'] === true
  const pipelines = pipelinesFolder(invocation)
  const out = resolve(folder, String(options['out']))
  const made = madeDocuments(pipelines, await readDocumented(pipelines), invocation.commands, output.note)
  const documents = new Map([...made].map(([path, text]) => [join(out, path), text]))
  const { files, stale, removed, kept } = await write(documents, out, check)
  const shown = (list: readonly string[]): string[] => list.map((file) => relative(folder, file))
  output.summary('docs', { check, files: shown(files), stale: shown(stale), kept: shown(kept) })
  const written = (file: string): string => (removed.includes(file) ? 'removed  ' : 'wrote    ')
  const state = (file: string): string =>
    kept.includes(file) ? 'yours    ' : stale.includes(file) ? (check ? 'stale    ' : written(file)) : 'unchanged'
  for (const file of files) output.line(`${state(file)} ${relative(folder, file)}`)
  if (check && stale.length > 0) output.line('Run `millrace docs` and commit what it writes.')
  return check && stale.length > 0 ? 1 : 0
}

/**
 * `stale`: files that were out of date; `removed`: generated files without a source any more, also stale; `kept`: files of a person, left alone.
 * @param check compares only
 */
const write = async (documents: ReadonlyMap<string, string>, out: string, check: boolean) => {
  const left = await leftOver(out, documents)
  if (!check) for (const file of left) await rm(file)
  const stale: string[] = [...left]
  const kept: string[] = []
  for (const [file, text] of documents) {
    const old = existsSync(file) ? await readFile(file, 'utf8') : null
    if (old === text) continue
    // An existing file without our mark belongs to a person.
    if (old !== null && text.includes(assistantsMark) && !old.includes(assistantsMark)) {
      kept.push(file)
      continue
    }
    stale.push(file)
    if (check) continue
    await makeFolders(dirname(file))
    await writeFile(file, text)
  }
  return { files: [...documents.keys(), ...left], stale, removed: left, kept }
}

/** Generated files that no longer have a source: files with our mark in the folders that are generated as a whole. */
const leftOver = async (out: string, documents: ReadonlyMap<string, string>): Promise<string[]> => {
  const left: string[] = []
  for (const folder of ['dbt', 'lightdash', 'superset-bundle']) {
    if (!existsSync(join(out, folder))) continue
    for (const entry of await readdir(join(out, folder), { recursive: true, withFileTypes: true })) {
      const file = join(entry.parentPath, entry.name)
      if (!entry.isFile() || documents.has(file)) continue
      const [first = ''] = (await readFile(file, 'utf8')).split('\n', 1)
      if (/^(?:#|--|\{#) Made by `?millrace docs`? from (?:semantic|pipelines)/.test(first)) left.push(file)
    }
  }
  return left.sort()
}

/** Reads everything that documents and dashboards are made from. */
export const readDocumented = async (pipelines: string) => {
  const { definitions } = await openDefinitions(pipelines, [])
  const marts = await loadMarts(ownFolders(pipelines, 'marts'))
  const model = await loadSemantics(ownFolders(pipelines, 'semantic'))
  const dashboards = await loadDashboards(ownFolders(pipelines, 'dashboards'))
  return { definitions, marts, model, dashboards, views: describedViews(definitions, marts) }
}

/** The documents, by path below the folder of documents. @param tell called with what was left out, and why */
export const madeDocuments = (
  pipelines: string,
  { definitions, marts, model, dashboards, views }: Awaited<ReturnType<typeof readDocumented>>,
  commands: readonly CommandSpec[],
  tell: (text: string) => void,
) => {
  const bundle = supersetBundle({ connection: defaultConnection, views, model, definitions, dashboards })
  for (const text of bundle.skipped) tell(`superset-bundle without the dashboard ${text}`)
  const words = definitions.map(({ pipeline, description, file }) => ({
    pipeline,
    description,
    file: `${basename(pipelines)}/${basename(file)}`,
  }))
  return new Map([
    ['data-dictionary.md', dataDictionary(definitions, marts)],
    ...semanticDocuments(model, definitions, marts),
    ...[...bundle.files, connectionFile(defaultConnection)].map(([path, text]) => [`superset-bundle/${path}`, text] as const),
    [join('..', 'llms.txt'), llmsText({ model, commands, pipelines: words })],
  ])
}
