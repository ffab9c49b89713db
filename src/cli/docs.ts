// `millrace docs`: every page and file that is made from the definitions, the marts and the semantic files.
import { basename, join, relative, resolve } from 'node:path'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { loadDashboards } from '../definition/dashboards.ts'
import type { SemanticModel } from '../definition/semantic.ts'
import { loadSemantics } from '../definition/semantic-model.ts'
import { describedViews } from '../publish/view-columns.ts'
import { dashboardFolders, semanticFolders } from '../run/open-runtime.ts'
import { writeDocs } from '../run/write-docs.ts'
import { assistantsMark, llmsText } from '../semantic/assistants.ts'
import { semanticDocuments } from '../semantic/documents.ts'
import { connectionFile, defaultConnection, supersetBundle } from '../semantic/superset/superset-bundle.ts'
import { pipelinesFolder } from './command-runtime.ts'
import type { CommandSpec, Handler } from './command-spec.ts'

/** With `--check` exit code 1 where a file is not as the definitions say. */
export const docs: Handler = async (invocation) => {
  const { folder, options, output } = invocation
  const check = options['check'] === true
  const { files, stale, removed, kept } = await writeDocs({
    pipelinesFolder: pipelinesFolder(invocation),
    out: resolve(folder, String(options['out'])),
    check,
    more: (definitions, marts) =>
      moreDocuments(pipelinesFolder(invocation), { definitions, marts }, invocation.commands, output.note),
    mark: assistantsMark,
  })
  const shown = (list: readonly string[]): string[] => list.map((file) => relative(folder, file))
  output.event({ event: 'summary', command: 'docs', check, files: shown(files), stale: shown(stale), kept: shown(kept) })
  const written = (file: string): string => (removed.includes(file) ? 'removed  ' : 'wrote    ')
  const state = (file: string): string =>
    kept.includes(file) ? 'yours    ' : stale.includes(file) ? (check ? 'stale    ' : written(file)) : 'unchanged'
  for (const file of files) output.line(`${state(file)} ${relative(folder, file)}`)
  if (check && stale.length > 0) output.line('Run `millrace docs` and commit what it writes.')
  return check && stale.length > 0 ? 1 : 0
}

interface Defined {
  readonly definitions: readonly Definition[]
  readonly marts: readonly Mart[]
}

/** By path from the folder of documents. @param tell called with what was left out, and why */
export const moreDocuments = async (
  pipelines: string,
  { definitions, marts }: Defined,
  commands: readonly CommandSpec[],
  tell: (text: string) => void,
): Promise<ReadonlyMap<string, string>> => {
  const model = await loadSemantics(semanticFolders(pipelines))
  const words = definitions.map(({ pipeline, description, file }) => ({
    pipeline,
    description,
    file: `${basename(pipelines)}/${basename(file)}`,
  }))
  return new Map([
    ...semanticDocuments(model, definitions, marts),
    ...(await bundleDocuments(pipelines, { definitions, marts }, model, tell)),
    [join('..', 'llms.txt'), llmsText({ model, commands, pipelines: words })],
  ])
}

const bundleDocuments = async (
  pipelines: string,
  { definitions, marts }: Defined,
  model: SemanticModel,
  tell: (text: string) => void,
): Promise<[path: string, text: string][]> => {
  const views = describedViews(definitions, marts)
  const dashboards = await loadDashboards(dashboardFolders(pipelines))
  const { files, skipped } = supersetBundle({ connection: defaultConnection, views, model, definitions, dashboards })
  for (const text of skipped) tell(`superset-bundle without the dashboard ${text}`)
  return [...files, connectionFile(defaultConnection)].map(([path, text]) => [`superset-bundle/${path}`, text])
}
