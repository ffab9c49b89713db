// Every file that is made from the semantic files, by its path.
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import type { SemanticModel } from '../definition/semantic.ts'
import { metricsChapter } from './assistants.ts'
import { dbtFiles } from './dbt.ts'
import { lightdashFiles } from './lightdash.ts'

/** Below the folder of documents. */
export const semanticDocuments = (
  model: SemanticModel,
  definitions: readonly Definition[],
  marts: readonly Mart[],
): ReadonlyMap<string, string> => {
  const below = (folder: string, files: ReadonlyMap<string, string>): [string, string][] =>
    [...files].map(([path, text]) => [`${folder}/${path}`, text])
  return new Map([
    ['metrics-dictionary.md', metricsChapter(model)],
    ...below('dbt', dbtFiles(model, definitions, marts)),
    ...below('lightdash', lightdashFiles(model)),
  ])
}
