// Attributes by value: facts that people maintain about the values that pipelines run for, unknown to the service.

/** One value's attributes. */
export interface AttributeRow {
  readonly value: string
  readonly attributes: Readonly<Record<string, string | number | readonly string[]>>
}

/** Attributes that were read and checked. */
export interface AttributeRows {
  readonly file: string
  /** What the values are of: a name under `for_each`, or the key of a dimension table. */
  readonly subject: string
  readonly rows: readonly AttributeRow[]
}

/** Attributes from a file, or from a query that runs when they are applied. */
export type AttributeSet =
  | AttributeRows
  | {
      readonly file: string
      readonly sql: string
      /** Checks the query's rows like a file; `set` is null where there are problems. Lines count from 1. */
      readonly rowsOf: (table: readonly { readonly line: number; readonly cells: readonly string[] }[]) => {
        readonly set: AttributeRows | null
        readonly problems: readonly { readonly line: number; readonly message: string }[]
      }
    }
