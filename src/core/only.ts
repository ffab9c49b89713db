// Slices on the command line, `name=value,value;name=value`: read here, and written into suggested commands. A backslash before `;`, `,` or `=` makes it part of a value.
import { usageError } from './errors.ts'

/** Values by dimension; null: the option was not given. Throws USAGE. */
export const parseOnly = (text: unknown): ReadonlyMap<string, readonly string[]> | null => {
  if (text === undefined) return null
  const only = new Map<string, readonly string[]>()
  for (const part of split(String(text), ';')) {
    const [name = '', list = '', ...rest] = split(part, '=')
    const values = split(list, ',').map(plain).filter(Boolean)
    if (!plain(name) || values.length === 0 || rest.length > 0) {
      throw usageError(
        `--only is '${String(text)}'; write it as --only NAME=VALUE,VALUE, with ';' between names, and '\\' before a ; , or = of a value.`,
      )
    }
    only.set(plain(name), [...(only.get(plain(name)) ?? []), ...values])
  }
  return only
}

/** The text that `parseOnly` reads. */
export const formatOnly = (lists: readonly { readonly name: string; readonly values: readonly string[] }[]): string =>
  lists.map(({ name, values }) => `${name}=${values.map((value) => value.replace(/[\\;,=]/g, '\\$&')).join(',')}`).join(';')

/** Splits at separators that are not escaped; two backslashes are one literal backslash. */
const split = (text: string, separator: string): readonly string[] =>
  text.split(new RegExp(String.raw`(?<=(?:^|[^\\])(?:\\\\)*)${separator}`))

const plain = (text: string): string => text.trim().replace(/\\([\\;,=])/g, '$1')
