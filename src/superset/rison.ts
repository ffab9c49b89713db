// Rison, the notation Superset wants in the parameter `q`.

export type RisonValue = string | number | boolean | readonly RisonValue[] | { readonly [key: string]: RisonValue }

/** Text in quotes, so that no character of a value means something. Keys are plain words. */
export const rison = (value: RisonValue): string => {
  if (typeof value === 'string') return `'${value.replaceAll(/[!']/g, '!$&')}'`
  if (typeof value === 'number') return String(value)
  if (typeof value === 'boolean') return value ? '!t' : '!f'
  if (isList(value)) return `!(${value.map(rison).join(',')})`
  return `(${Object.entries(value)
    .map(([key, one]) => `${key}:${rison(one)}`)
    .join(',')})`
}

const isList = (value: RisonValue): value is readonly RisonValue[] => Array.isArray(value)
