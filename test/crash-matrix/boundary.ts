// What the harness and the process it kills agree on.

/** Names the file that takes every boundary reached, a line each: `label #occurrence`. */
export const recordName = 'CRASH_RECORD'
/** Names the boundary to die at. */
export const killAtName = 'CRASH_AT'
