// What `millrace init` puts in place of the examples: the domains and countries somebody follows.
import { EtlError } from '../core/errors.ts'

const [pattern, flags] = ['^( +country: )\\[.*\\]$', 'm']
const listOfPlaces = new RegExp(pattern, flags)

/** A shipped file of `pipelines`, with the lists of its reader. */
export type WithOwnLists = (file: string, text: string) => string

/** Throws USAGE. Without either option every file stays as it is. */
export const ownLists = (options: Readonly<Record<string, unknown>>): WithOwnLists => {
  const sites = valuesOf(options['domains'], {
    is: /^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$/,
    wrong: (value) =>
      `--domains has '${value}', which is no domain; write for example --domains a.com,b.com, without https:// and www.`,
  })
  const places = valuesOf(options['countries'], {
    is: /^(?:[a-z]{2}|world)$/,
    wrong: (value) =>
      `--countries has '${value}', which is no country; write for example --countries us,gb: two small letters each, or world.`,
  })
  return (file, text) => {
    if (sites !== null && file.endsWith('domains.txt')) return withLines(text, sites)
    if (places !== null && file.endsWith('.yaml')) return text.replace(listOfPlaces, `$1[${places.join(', ')}]`)
    return text
  }
}

interface Kind {
  readonly is: RegExp
  readonly wrong: (value: string) => string
}

/** null: the examples stay. */
const valuesOf = (text: unknown, { is, wrong }: Kind): readonly string[] | null => {
  if (text === undefined) return null
  const values = String(text).split(',')
  const unfit = values.find((value) => !is.test(value))
  if (unfit !== undefined) throw new EtlError('USAGE', wrong(unfit))
  return values
}

/** The file's own heading over other lines. */
const withLines = (text: string, values: readonly string[]): string =>
  [...text.split('\n').filter((line) => line.startsWith('#')), ...values, ''].join('\n')
