// Alarms in words: one headline and three short answers to what is wrong, what changed, and what to do.
import type { Told, Telling } from '../../ledger/deliveries.ts'

/** A message before it takes the form of its channel. */
export interface Words {
  /** One line: `Error: 200 units in 3 pipelines failed`. */
  readonly headline: string
  /** Paragraphs, each a title and lines. */
  readonly parts: readonly { readonly title: string; readonly lines: readonly string[] }[]
}

const longestLine = 1_500
/** Pipelines named one by one. */
const mostLines = 20

/** The same words for every channel. */
export const wordsOf = ({ event, told }: Telling): Words => {
  const [first] = told
  if (first === undefined) return { headline: 'Nothing', parts: [] }
  const headline = told.length === 1 ? first.message : `${capital(first.kind)} in ${told.length} places: ${placesOf(told)}`
  if (event === 'resolved')
    return {
      headline: `Over (${first.kind}): ${cut(headline)}`,
      parts: [{ title: 'It lasted', lines: listed(told.map((one) => `${nameOf(one, told)}${lastedOf(one)}`)) }],
    }
  const parts = [
    ...(told.length === 1 ? [] : [{ title: 'What is wrong', lines: listed(told.map(({ message }) => message)) }]),
    {
      title: 'What changed',
      lines: listed(unique(told.map(({ changed, raisedAt }) => `${changed ?? ''} First seen ${minute(raisedAt)}.`.trim()))),
    },
    { title: 'What to do', lines: listed(unique(told.flatMap(({ nextStep }) => nextStep ?? []))) },
  ]
  return {
    headline: `${capital(first.severity)} (${first.kind}): ${cut(headline)}`,
    parts: parts.filter(({ lines }) => lines.length > 0),
  }
}

/** For e-mail, standard error and channels without a form of their own. */
export const plainText = ({ headline, parts }: Words): string =>
  [headline, ...parts.map(({ title, lines }) => [`${title}:`, ...lines].join('\n'))].join('\n\n')

const capital = (text: string): string => `${text[0]?.toUpperCase() ?? ''}${text.slice(1)}`

const cut = (text: string): string => (text.length > longestLine ? `${text.slice(0, longestLine)} ...` : text)

const listed = (lines: readonly string[]): string[] => {
  const shown = lines.slice(0, mostLines).map(cut)
  return lines.length > mostLines ? [...shown, `and ${lines.length - mostLines} more.`] : shown
}

const unique = (lines: readonly string[]): string[] => [...new Set(lines)]

const placesOf = (told: readonly Told[]): string => unique(told.map(({ pipeline, message }) => pipeline ?? message)).join(', ')

const nameOf = ({ pipeline }: Told, told: readonly Told[]): string =>
  told.length > 1 && pipeline !== null ? `${pipeline}: ` : ''

const lastedOf = ({ raisedAt, resolvedAt }: Told): string => {
  const from = minute(raisedAt)
  if (resolvedAt === null) return `from ${from}.`
  const minutes = Math.max(1, Math.round((Date.parse(resolvedAt) - Date.parse(raisedAt)) / 60_000))
  const span =
    minutes < 120 ? `${minutes} min` : minutes < 48 * 60 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1_440)} days`
  return `${span}, from ${from} to ${minute(resolvedAt)}.`
}

const minute = (iso: string): string => `${new Date(iso).toISOString().slice(0, 16).replace('T', ' ')} UTC`
