// Everything a body may not exceed, by name. The size of the whole body is the definition's (`limits.max_body`).

/** Bytes of one record; beyond it a quote is not closed, or what came is no table. */
export const maxRecordBytes = 4 * 1024 * 1024
/** Lines one CSV record may span. */
export const maxRecordLines = 1_000
/** Columns of a file; PostgreSQL's tables end at 1,600. */
export const maxColumns = 1_600
/** Bytes of a row's key: an index entry holds about 2,700, its header and the unit's own columns need some. */
export const maxKeyBytes = 2_000
/** Bytes of one JSON page: an object that holds its records in a list. Lists and lines are read record by record. */
export const maxPageBytes = 64 * 1024 * 1024
