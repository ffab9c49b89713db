// What a check found, a line for each thing.
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
interface Note {
  readonly area: Area
  readonly result: 'error' | 'warning' | 'proved' | 'not asked'
  readonly message: string
}

/** What the areas fill. */
export type Notes = Note[]

export const note = (notes: Notes, area: Area, result: Note['result'], message: string): void =>
  void notes.push({ area, result, message })
