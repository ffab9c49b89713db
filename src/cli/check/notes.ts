// What a check found, a line for each thing.
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

/** One question of a check: shown to be right, to be corrected (`error`), to be known (`warning`), or not asked and why. */
export interface Note {
  readonly area: Area
  readonly result: 'error' | 'warning' | 'proved' | 'not asked'
  readonly message: string
}

/** What the areas fill. */
export type Notes = ReturnType<typeof createNotes>

export const createNotes = () => {
  const all: Note[] = []
  const saying = (result: Note['result']) => (area: Area, message: string) => void all.push({ area, result, message })
  return {
    all,
    add: (area: Area, result: Note['result'], message: string) => saying(result)(area, message),
    error: saying('error'),
    warning: saying('warning'),
    proved: saying('proved'),
    notAsked: saying('not asked'),
    isSaid: (message: string) => all.some((known) => known.message === message),
    problems: (area: Area, problems: readonly Problem[]): void => {
      for (const problem of problems) all.push({ area, result: 'error', message: showProblem(problem) })
    },
  }
}
