// Credits that may be spent, as a definition or the environment says.

export interface Budget {
  /** Credits a calendar month (UTC); null: no limit. */
  readonly perMonth: number | null
  /** Credits a day (UTC); null: no limit. */
  readonly perDay: number | null
  /** What to change to spend more, for messages. */
  readonly setting?: { readonly perMonth: string; readonly perDay: string }
}

/** What may be spent for one tag, over all pipelines that have it. */
export interface TagBudget {
  /** `client` */
  readonly name: string
  /** `acme` */
  readonly value: string
  readonly budget: Budget
}

export const noBudget: Budget = { perMonth: null, perDay: null }
