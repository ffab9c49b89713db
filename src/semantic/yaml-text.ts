// Values as YAML in blocks, the same for the same input. Scalars are JSON, which is YAML.

/** What a file is made of; undefined is left out. */
export type YamlValue =
  | string
  | number
  | boolean
  | null
  | readonly YamlValue[]
  | { readonly [key: string]: YamlValue | undefined }

const isMap = (value: YamlValue): value is { readonly [key: string]: YamlValue | undefined } =>
  typeof value === 'object' && value !== null && !isList(value)
const isList = (value: YamlValue): value is readonly YamlValue[] => Array.isArray(value)
const isPlain = (value: YamlValue): boolean =>
  (isList(value) && value.every((one) => !isMap(one) && !isList(one))) || (isMap(value) && Object.keys(value).length === 0)

const keyText = (key: string): string => (/^[A-Za-z_][\w-]*$/.test(key) ? key : JSON.stringify(key))

const lines = (value: YamlValue, indent: string): string[] => {
  if (isList(value))
    return value.flatMap((one) => {
      if (!isMap(one) && !isList(one)) return [`${indent}- ${JSON.stringify(one)}`]
      const [first = '', ...rest] = lines(one, `${indent}  `)
      return [`${indent}- ${first.trimStart()}`, ...rest]
    })
  if (!isMap(value)) return [`${indent}${JSON.stringify(value)}`]
  return Object.entries(value).flatMap(([key, one]) => {
    if (one === undefined) return []
    if (isPlain(one))
      return [`${indent}${keyText(key)}: ${isList(one) ? `[${one.map((each) => JSON.stringify(each)).join(', ')}]` : '{}'}`]
    if (isMap(one) || isList(one)) return [`${indent}${keyText(key)}:`, ...lines(one, `${indent}  `)]
    return [`${indent}${keyText(key)}: ${JSON.stringify(one)}`]
  })
}

/** The first line of each generated file. */
export const madeBy = '# Made by `millrace docs` from semantic/*.yaml; do not edit.'

/** A whole file, its first line saying who made it. */
export const yamlFile = (value: YamlValue): string => `${[madeBy, ...lines(value, '')].join('\n')}\n`
