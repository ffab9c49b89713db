// Names PostgreSQL would cut or the warehouse needs for itself.

// PostgreSQL cuts identifiers after 63 bytes; the longest name made from a pipeline is a partition of its history.
const longestIdentifier = 63
const longestSuffix = (version: number): string => `_v${version}_history_p202601`

const reservedColumns = ['valid_from', 'valid_to', 'is_final', 'restated_at']
const systemColumns = ['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid']

/** Why `name` cannot name a pipeline, or null. Its form was checked before. */
export const pipelineNameProblem = (name: string, version: number): string | null => {
  const most = longestIdentifier - longestSuffix(version).length
  if (name.length > most) {
    return `'${name}' has ${name.length} characters; at most ${most} leave room for ${longestSuffix(version)} in table names. Shorten it.`
  }
  const taken = /_(history|as_of)$/.exec(name) ?? /^(dim|mart)_/.exec(name) ?? /^freshness$/.exec(name)
  if (taken !== null) return `'${name}' would collide with views Millrace makes in bi ('${taken[0]}'); choose another name.`
  return null
}

/** Why `name` cannot name a column, or null. */
export const columnNameProblem = (name: string): string | null => {
  if (name.length > longestIdentifier) {
    return `'${name}' has ${name.length} characters; PostgreSQL allows ${longestIdentifier}. Shorten it and name the field in from.`
  }
  if (reservedColumns.includes(name) || systemColumns.includes(name)) {
    return `'${name}' is a name the warehouse uses itself; choose another and name the field in from.`
  }
  return null
}
