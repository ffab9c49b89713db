// What a source declares about the dimension tables of `bi` that its facts join to: they have one row for each value in the facts.

/** A column beside the key and `first_seen_at`. It is text where `millrace new migration` writes the table. */
export interface DimensionColumn {
  /** For the column's comment. */
  readonly description: string
  /** Fills it when a value of `for_each` is first loaded; null: not known. Values that only rows bring get NULL. Default: a person fills it in, or the table computes it. */
  readonly textOf?: (value: string) => string | null
}

export interface DimensionTableSpec {
  /** In schema `bi`. Sources that name the same table share it. Grants go by the prefix (src/db/role-statements.ts). */
  readonly name: `dim_${string}`
  /** One sentence, for the table's comment. */
  readonly description: string
  /** What the key column holds, for its comment. */
  readonly key: string
  /** By name. Default: none. */
  readonly columns?: Readonly<Record<string, DimensionColumn>>
}

/** A dimension table of one definition. `column`: the key column of the facts, which has the same name as the dimension table's key. */
export interface DimensionTable extends DimensionTableSpec {
  readonly column: string
  /** The column comes from `for_each`, so its values are known without reading rows. */
  readonly isAskedFor: boolean
}
