// Every file that is made from the semantic files, by its path.
import type { SemanticModel } from '../definition/semantic.ts'
import { agentsText, type AssistantWords, llmsText, metricsChapter } from './assistants.ts'
import { dbtFiles } from './dbt.ts'
import { lightdashFiles } from './lightdash.ts'

/** Below the folder of documents. */
export const semanticDocuments = (model: SemanticModel): ReadonlyMap<string, string> => {
  const below = (folder: string, files: ReadonlyMap<string, string>): [string, string][] =>
    [...files].map(([path, text]) => [`${folder}/${path}`, text])
  return new Map([
    ['metrics-dictionary.md', metricsChapter(model)],
    ...below('dbt', dbtFiles(model)),
    ...below('lightdash', lightdashFiles(model)),
  ])
}

/** Beside the folder of documents, where assistants look. */
export const assistantDocuments = (words: AssistantWords): ReadonlyMap<string, string> =>
  new Map([
    ['llms.txt', llmsText(words)],
    ['AGENTS.md', agentsText(words)],
  ])
