// A number of credits as the service writes it.

/** null: none is named; NaN: it is no number, which tells nothing. */
export const creditsIn = (value: unknown): number | null =>
  value === undefined || value === null
    ? null
    : typeof value === 'number' || (typeof value === 'string' && value !== '')
      ? Number(value)
      : Number.NaN
