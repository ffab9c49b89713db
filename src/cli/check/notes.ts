// The findings of a check, one line each.
import { type Problem, showProblem } from '../../definition/problem.ts'

export type Area =
  | 'definition'
  | 'mart'
  | 'attributes'
  | 'semantic'
  | 'alarms'
  | 'configuration'
  | 'database'
  | 'migration'
  | 'table'
  | 'landing'
  | 'identity'
  | 'service'
  | 'data points'

/** One finding: right (`proved`), to be corrected (`error`), good to know (`warning`), or not checked and why (`not asked`). */
export interface Note {
  readonly area: Area
  readonly result: 'error' | 'warning' | 'proved' | 'not asked'
  readonly message: string
}

export type Notes = ReturnType<typeof createNotes>

export const createNotes = () => {
  const all: Note[] = []
  const isSaid = (message: string): boolean => all.some((known) => known.message === message)
  const saying = (result: Note['result']) => (area: Area, message: string) => void all.push({ area, result, message })
  const error = saying('error')
  return {
    all,
    add: (area: Area, result: Note['result'], message: string) => saying(result)(area, message),
    /** Adds an error once: several areas may meet the same cause. */
    error: (area: Area, message: string) => (isSaid(message) ? undefined : error(area, message)),
    warning: saying('warning'),
    proved: saying('proved'),
    notAsked: saying('not asked'),
    isSaid,
    problems: (area: Area, problems: readonly Problem[]): void => {
      for (const problem of problems) all.push({ area, result: 'error', message: showProblem(problem) })
    },
  }
}
