// One internal code for a country, lower case or `world`, spelled as each endpoint wants it (api-facts A 38).

/** `world`, `us`: the keyword endpoint. */
export const forRest = (code: string): string => code.toLowerCase()

/** `WW`, `US`: the batch endpoints. */
export const forBatch = (code: string): string => (code.toLowerCase() === 'world' ? 'WW' : code.toUpperCase())

/** Whatever came back, as the internal code. */
export const internalCountry = (text: string): string => {
  const code = text.trim().toLowerCase()
  return code === 'ww' || code === 'worldwide' ? 'world' : code
}
