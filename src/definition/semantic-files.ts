// Reads semantic files: those that ship and one's own, which add to them entry by entry; every mistake with file, line and column.
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { shipped } from '../core/shipped.ts'
import { problemsOf } from './issues.ts'
import { assertNoProblems, type Problem, sortProblems } from './problem.ts'
import type { SemanticModel } from './semantic.ts'
import { buildModel } from './semantic-model.ts'
import { type SemanticFile, semanticSchema } from './semantic-schema.ts'
import { readYaml, type YamlFile } from './yaml-file.ts'

/** Folder of the semantic files that come with the program. */
export const shippedSemantics = shipped('semantic')

/** One file that is right in itself. */
export interface SemanticPart {
  readonly yaml: YamlFile
  readonly data: SemanticFile
}

/** What could be understood, and every mistake of every file. */
export interface Semantics {
  readonly model: SemanticModel
  readonly problems: readonly Problem[]
  readonly files: readonly string[]
}

/** Files of all folders; a later folder's entries replace earlier ones of the same name. */
export const readSemantics = async (folders: readonly string[]): Promise<Semantics> => {
  const files: { file: string; text: string }[] = []
  for (const folder of new Set([shippedSemantics, ...folders])) {
    if (!existsSync(folder)) continue
    for (const name of (await readdir(folder)).filter((one) => /\.ya?ml$/.test(one) && !one.startsWith('.')).sort())
      files.push({ file: join(folder, name), text: await readFile(join(folder, name), 'utf8') })
  }
  return parseSemantics(files)
}

/** The same without a disk. */
export const parseSemantics = (files: readonly { readonly file: string; readonly text: string }[]): Semantics => {
  const problems: Problem[] = []
  const parts: SemanticPart[] = []
  for (const { file, text } of files) {
    const { yaml, problems: found } = readYaml(file, text)
    problems.push(...found)
    if (yaml === null) continue
    const checked = semanticSchema.safeParse(yaml.value)
    if (checked.success) parts.push({ yaml, data: checked.data })
    else problems.push(...problemsOf(checked.error.issues, semanticSchema, yaml))
  }
  const { model, problems: wrong } = buildModel(parts)
  return { model, problems: sortProblems([...problems, ...wrong]), files: files.map(({ file }) => file) }
}

/** Throws DEFINITION with every problem. */
export const loadSemantics = async (folders: readonly string[]): Promise<SemanticModel> => {
  const { model, problems } = await readSemantics(folders)
  assertNoProblems(problems)
  return model
}
