// What may stand where the cursor is in `millrace …`: commands, their options, the values of these, names of pipelines.
import type { CommandSpec, OptionSpec } from './command-spec.ts'

/** One way to go on, and what it means. */
export interface Candidate {
  readonly text: string
  readonly about: string
}

/** Options that every command has. */
export const sharedOptions: readonly OptionSpec[] = [
  { flags: '--json', description: 'print one JSON object a line, the last one a summary' },
  { flags: '--pipelines <folder>', description: 'folder of the pipeline definitions', fallback: 'pipelines' },
]

const help: OptionSpec = { flags: '--help', description: 'what the command takes' }

/**
 * Empty where anything may stand, a file for instance.
 * @param words after `millrace`, the last one as far as it is typed
 * @param pipelines names of the definitions; asked for only where one may stand
 */
export const completeWords = async (
  commands: readonly CommandSpec[],
  words: readonly string[],
  pipelines: () => Promise<readonly string[]>,
): Promise<readonly Candidate[]> => {
  const current = words.at(-1) ?? ''
  const [name] = words
  const fits = (all: readonly Candidate[]): readonly Candidate[] => all.filter(({ text }) => text.startsWith(current))
  if (words.length <= 1)
    return fits(commands.map(({ usage, description }) => ({ text: usage.split(' ')[0] ?? '', about: description })))
  const command = commands.find(({ usage }) => usage.split(' ')[0] === name)
  if (command === undefined) return []
  const options = [...command.options, ...((await command.moreOptions?.()) ?? []), ...sharedOptions, help]
  const asking = optionOf(options, words.at(-2) ?? '')
  if (asking !== undefined && takesValue(asking)) return fits((asking.values ?? []).map((text) => ({ text, about: '' })))
  if (current.startsWith('-')) return fits(optionCandidates(options))
  return fits(await argumentCandidates(command, positionOf(words, options), pipelines))
}

const flagOf = ({ flags }: OptionSpec): string => /--[a-z-]+/.exec(flags)?.[0] ?? ''
const takesValue = ({ flags }: OptionSpec): boolean => /[<[]/.test(flags)
const optionOf = (options: readonly OptionSpec[], word: string): OptionSpec | undefined =>
  options.find((option) => flagOf(option) === word)

const optionCandidates = (options: readonly OptionSpec[]): Candidate[] =>
  options.map((option) => ({ text: flagOf(option), about: option.description }))

/** How many arguments stand before the current word; what belongs to an option is none. */
const positionOf = (words: readonly string[], options: readonly OptionSpec[]): number =>
  words.slice(1, -1).filter((word, index) => {
    const before = optionOf(options, words[index] ?? '')
    return !word.startsWith('-') && (before === undefined || !takesValue(before))
  }).length

/** `[pipeline...]` is a name of a definition, `<list|show|retry>` one of these words. */
const argumentCandidates = async (
  { usage }: CommandSpec,
  position: number,
  pipelines: () => Promise<readonly string[]>,
): Promise<Candidate[]> => {
  const [, ...parts] = usage.split(' ').map((part) => part.replaceAll(/[<>[\]]/g, ''))
  const part = parts[position] ?? parts.findLast((one) => one.endsWith('...'))
  if (part === undefined) return []
  if (part.includes('|')) return part.split('|').map((text) => ({ text, about: '' }))
  return part === 'pipeline...' ? (await pipelines()).map((text) => ({ text, about: 'pipeline' })) : []
}
