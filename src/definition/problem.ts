// One thing wrong with a definition, where it stands, and how all of them are shown.
import { EtlError } from '../core/errors.ts'

/** One mistake in a file that a person wrote. */
export interface Problem {
  readonly file: string
  /** Both from 1. */
  readonly line: number
  readonly column: number
  /** What was found, what is expected, and what to do. */
  readonly message: string
}

/** `pipelines/keywords.yaml:8:40: …`, which editors and terminals make a link of. */
export const showProblem = (problem: Problem): string => `${problem.file}:${problem.line}:${problem.column}: ${problem.message}`

/** File, line and column a message begins with, as `showProblem` writes them; empty where it begins with none. */
export const placeOf = (message: string): Partial<Pick<Problem, 'file' | 'line' | 'column'>> => {
  const [, file, line, column] = /^([^\s:][^:\n]*):(\d+):(\d+): /.exec(message) ?? []
  return file === undefined ? {} : { file, line: Number(line), column: Number(column) }
}

/** By file, then by place; the same problem at the same place once. */
export const sortProblems = (problems: readonly Problem[]): readonly Problem[] => {
  const unique = new Map(problems.map((problem) => [showProblem(problem), problem]))
  return [...unique.values()].sort(
    (left, right) =>
      (left.file < right.file ? -1 : left.file > right.file ? 1 : 0) || left.line - right.line || left.column - right.column,
  )
}

/** Throws one DEFINITION error that lists every problem; does nothing when there is none. */
export const assertNoProblems = (problems: readonly Problem[]): void => {
  if (problems.length === 0) return
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
  throw new EtlError(
    'DEFINITION',
    `${count} in the pipeline definitions:\n${problems.map((problem) => `  ${showProblem(problem)}`).join('\n')}\n` +
      'Nothing was called. Correct these lines, then run `millrace check`.',
    { context: { problems } },
  )
}
