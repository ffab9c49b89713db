// Values as YAML in blocks, the same for the same input. Scalars are JSON, which is YAML.

/** What a file is made of; undefined is left out. */
export type YamlValue =
  | string
  | number
  | boolean
  | null
  | readonly YamlValue[]
  | { readonly [key: string]: YamlValue | undefined }

/** The top of a file. */
export interface YamlMap {
  readonly [key: string]: YamlValue | undefined
}

const isMap = (value: YamlValue): value is { readonly [key: string]: YamlValue | undefined } =>
  typeof value === 'object' && value !== null && !isList(value)
const isList = (value: YamlValue): value is readonly YamlValue[] => Array.isArray(value)
const isPlain = (value: YamlValue): boolean =>
  (isList(value) && value.every((one) => !isMap(one) && !isList(one))) || (isMap(value) && Object.keys(value).length === 0)

/** JSON but for characters that YAML does not take as they are: it reads \u2028 as the end of a line. */
const scalar = (value: unknown): string =>
  JSON.stringify(value).replaceAll(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Without quotes some words are no text in YAML 1.1, which Python reads. */
const keyText = (key: string): string =>
  /^[A-Za-z_][\w-]*$/.test(key) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(key) ? key : scalar(key)

const flow = (value: YamlValue): string => (isList(value) ? `[${value.map((one) => scalar(one)).join(', ')}]` : '{}')

const lines = (value: YamlValue, indent: string): string[] => {
  if (isList(value))
    return value.flatMap((one) => {
      if (!isMap(one) && !isList(one)) return [`${indent}- ${scalar(one)}`]
      if (isPlain(one)) return [`${indent}- ${flow(one)}`]
      const [first = '', ...rest] = lines(one, `${indent}  `)
      return [`${indent}- ${first.trimStart()}`, ...rest]
    })
  if (!isMap(value)) return [`${indent}${scalar(value)}`]
  return Object.entries(value).flatMap(([key, one]) => {
    if (one === undefined) return []
    if (isPlain(one)) return [`${indent}${keyText(key)}: ${flow(one)}`]
    if (isMap(one) || isList(one)) return [`${indent}${keyText(key)}:`, ...lines(one, `${indent}  `)]
    return [`${indent}${keyText(key)}: ${scalar(one)}`]
  })
}

/** The first line of each generated file. */
export const madeBy = '# Made by `millrace docs` from semantic/*.yaml; do not edit.'

/** A whole file, its first line saying who made it. */
export const yamlFile = (value: YamlValue): string => `${[madeBy, ...lines(value, '')].join('\n')}\n`
