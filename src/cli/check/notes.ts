// What a check found: mistakes, and a line for each thing that is proved or was not asked.
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

/** Something a person has to correct (`error`), or should know (`warning`). */
export interface Finding {
  readonly area: Area
  readonly level: 'error' | 'warning'
  readonly message: string
}

/** One thing: shown to be right, or not asked and why. */
export interface CheckLine {
  readonly area: Area
  readonly result: 'proved' | 'not asked'
  readonly message: string
}

/** What the areas fill. */
export interface Notes {
  readonly findings: Finding[]
  readonly lines: CheckLine[]
}

/** Every way in which one question of a check can end. */
export type Result = Finding['level'] | CheckLine['result']

/** Errors and warnings become findings, the rest lines. */
export const note = ({ findings, lines }: Notes, area: Area, result: Result, message: string): void => {
  if (result === 'error' || result === 'warning') findings.push({ area, level: result, message })
  else lines.push({ area, result, message })
}

/** `1 migration`, `3 migrations`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
