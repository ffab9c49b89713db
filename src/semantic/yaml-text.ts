// Writes values as YAML in block style; the same input gives the same text.
import { Document, isScalar, visit } from 'yaml'

/** A value of a file; undefined is left out. */
export type YamlValue = string | number | boolean | null | readonly YamlValue[] | YamlMap

/** A map, also the top level of a file. */
export interface YamlMap {
  readonly [key: string]: YamlValue | undefined
}

/** The first line of each generated file. */
export const generatedMark = '# Made by `millrace docs` from semantic/*.yaml; do not edit.'

/** YAML 1.1, as Python tools read it: there some words (yes, off) are no text without quotes. */
const form = {
  version: '1.1',
  defaultStringType: 'QUOTE_DOUBLE',
  defaultKeyType: 'PLAIN',
  lineWidth: 0,
  doubleQuotedMinMultiLineLength: 1e9,
  aliasDuplicateObjects: false,
  flowCollectionPadding: false,
} as const

/** A whole file with `generatedMark` as its first line. Characters that YAML does not allow are escaped as in JSON. */
export const yamlFile = (value: YamlValue): string => {
  const document = new Document(value, form)
  visit(document, {
    Collection: (_, node) => {
      node.flow = node.items.every((one) => isScalar(one))
    },
    Scalar: (key, node) => {
      if (key === 'key' && !/^[\w+ -]*$/.test(String(node.value))) node.type = 'QUOTE_DOUBLE'
    },
  })
  const escaped = (one: string): string => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`
  return `${generatedMark}\n${document.toString(form).replaceAll(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g, escaped)}`
}
