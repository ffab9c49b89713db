// `--only domain=a.com,b.com;country=us` as a map from dimension to values.
import { EtlError } from '../core/errors.ts'

/** null: the option was not given. Throws USAGE. */
export const parseOnly = (text: unknown): ReadonlyMap<string, readonly string[]> | null => {
  if (text === undefined) return null
  const only = new Map<string, readonly string[]>()
  for (const part of String(text).split(';')) {
    const [name, list, ...rest] = part.split('=')
    const values = (list ?? '')
      .split(',')
      .map((value) => value.trim())
      .filter(Boolean)
    if (!name || values.length === 0 || rest.length > 0) {
      throw new EtlError(
        'USAGE',
        `--only is '${String(text)}'; write it as --only domain=a.com,b.com (dimension=values, ';' between dimensions).`,
      )
    }
    only.set(name.trim(), values)
  }
  return only
}
