// One value of a for-each list: its one spelling, or what is wrong with it and how to write it.
import type { DimensionSpec, SourceSpec } from '../core/source-spec.ts'

const longestValue = 253

/** The value as the warehouse writes it, or what is wrong with it and what to write instead. */
export type CheckedValue = { readonly value: string } | { readonly message: string }

/** Normalizes and checks `written` as the source wants it. The message says what was found, what is expected and how to write it. */
export const checkValue = (written: string, spec: DimensionSpec, { spellings }: Pick<SourceSpec, 'spellings'>): CheckedValue => {
  const text = written.trim()
  if (text === '') return { message: 'an empty value; write one or remove the line.' }
  if (text.length > longestValue) return { message: `a value of ${text.length} characters; at most ${longestValue} are allowed.` }
  const spelling = spec.normalize === undefined ? undefined : spellings?.[spec.normalize]
  const wrong = spelling?.problem(text) ?? null
  if (wrong !== null) return { message: wrong }
  const value = spelling?.write(text) ?? text
  if (spec.pattern !== undefined && !new RegExp(spec.pattern.source, spec.pattern.flags.replace(/[gy]/g, '')).test(value)) {
    return { message: `'${text}' does not fit; expected ${spec.expected ?? `text that matches ${spec.pattern.source}`}.` }
  }
  return { value }
}
