// What the checks of one file share: the file, its source, and where problems go.
import type { SourceSpec } from '../core/source-spec.ts'
import type { Problem } from './problem.ts'
import type { Path, YamlFile } from './yaml-file.ts'

/** A list file's text, or why it could not be read. */
export type ListText = { readonly text: string } | { readonly failure: string }

/** What the checks of one file share. Problems are collected, so that one pass finds every mistake. */
export interface Scope {
  readonly yaml: YamlFile
  readonly source: SourceSpec
  /** `path` is relative to the folder of definitions. `shown` is the path for messages. */
  readonly readList: (path: string) => ListText & { readonly shown: string }
  readonly problems: Problem[]
}

/** Notes a problem at `path`, which need not exist: then it stands at what is nearest around it. */
export const report = (scope: Scope, path: Path, message: string, part: 'key' | 'value' = 'value'): void => {
  scope.problems.push({ file: scope.yaml.file, ...scope.yaml.place(path, part), message })
}
