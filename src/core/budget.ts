// Credits that may be spent, as a definition or the environment says.

export interface Budget {
  /** Credits a calendar month (UTC); null: no limit. */
  readonly perMonth: number | null
  /** Credits a day (UTC); null: no limit. */
  readonly perDay: number | null
}
