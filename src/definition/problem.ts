// A problem of a file with its place; suggestions for misspelled names; and how problems are shown.
import { closest, distance } from 'fastest-levenshtein'
import { EtlError } from '../core/errors.ts'

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

/** File, line and column at the beginning of a message, as `showProblem` writes them; empty where there are none. */
export const parsePlace = (message: string): Partial<Pick<Problem, 'file' | 'line' | 'column'>> => {
  const [, file, line, column] = /^([^\s:][^:\n]*):(\d+):(\d+): /.exec(message) ?? []
  return file === undefined ? {} : { file, line: Number(line), column: Number(column) }
}

export const notUtf8 = 'not UTF-8; save it as UTF-8, or some letters would be lost.'

/** The place of the first character that comes from another encoding than UTF-8; -1: none. */
export const firstNonUtf8 = (text: string): number => text.search(/[\u0000\uFFFD]/)

/** Sorts by file, then by place, without duplicates. */
export const sortProblems = (problems: readonly Problem[]): readonly Problem[] => {
  const unique = new Map(problems.map((problem) => [showProblem(problem), problem]))
  return [...unique.values()].sort(
    (left, right) =>
      (left.file < right.file ? -1 : left.file > right.file ? 1 : 0) || left.line - right.line || left.column - right.column,
  )
}

/** Returns `read` where it has no problems; else throws DEFINITION with all of them. @param files the kind of files, for the message */
export const assertNoProblems = <Read extends { problems: readonly Problem[] }>(
  read: Read,
  files = 'pipeline definitions',
): Read => {
  const { problems } = read
  if (problems.length === 0) return read
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
  throw new EtlError(
    'DEFINITION',
    `${count} in the ${files}:\n${problems.map((problem) => `  ${showProblem(problem)}`).join('\n')}\n` +
      'Nothing was called. Correct these lines, then run `millrace check`.',
    { context: { problems } },
  )
}

/** The candidate nearest to `word`; null: none is near enough to be meant. */
export const nearest = (word: string, candidates: readonly string[]): string | null => {
  const lower = candidates.map((one) => one.toLowerCase())
  const found = lower.length === 0 ? undefined : candidates[lower.indexOf(closest(word.toLowerCase(), lower))]
  if (found === undefined) return null
  const near = distance(word.toLowerCase(), found.toLowerCase())
  return near <= Math.max(2, Math.floor(Math.max(word.length, found.length) / 3)) ? found : null
}

/** ` Did you mean 'x'?` or, where nothing is near, ` Known: a, b, c.` */
export const suggest = (word: string, candidates: readonly string[]): string => {
  const found = nearest(word, candidates)
  if (found !== null) return ` Did you mean '${found}'?`
  if (candidates.length === 0) return ''
  const shown = candidates.slice(0, 12).join(', ')
  return ` Known: ${shown}${candidates.length > 12 ? ', ...' : ''}.`
}
