// One thing wrong with a file, where it stands, the spelling that was probably meant, and how all of them are shown.
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

/** File, line and column a message begins with, as `showProblem` writes them; empty where it begins with none. */
export const placeOf = (message: string): Partial<Pick<Problem, 'file' | 'line' | 'column'>> => {
  const [, file, line, column] = /^([^\s:][^:\n]*):(\d+):(\d+): /.exec(message) ?? []
  return file === undefined ? {} : { file, line: Number(line), column: Number(column) }
}

export const notUtf8 = 'not UTF-8; save it as UTF-8, since other letters would be lost.'

/** The first character that bytes of another encoding leave in a text; -1: there is none. */
export const foreignAt = (text: string): number => text.search(/[\u0000\uFFFD]/)

/** By file, then by place; the same problem at the same place once. */
export const sortProblems = (problems: readonly Problem[]): readonly Problem[] => {
  const unique = new Map(problems.map((problem) => [showProblem(problem), problem]))
  return [...unique.values()].sort(
    (left, right) =>
      (left.file < right.file ? -1 : left.file > right.file ? 1 : 0) || left.line - right.line || left.column - right.column,
  )
}

/** What was read, where it has no problem; else throws one DEFINITION error that lists every one. @param files what it was read from */
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

/** The candidate nearest to `word`, or null when none is near enough to be what was meant. */
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
