// `millrace completion SHELL`: the script that has bash, zsh or fish ask this program for what may come next, and the answers to that: commands, their
// options, the values of these, names of pipelines.
import { readFileSync } from 'node:fs'
import { shipped } from '../core/shipped.ts'
import { definitionTexts, pipelinesFolder } from './command-runtime.ts'
import { type CommandSpec, type Handler, type Invocation, type OptionSpec, sharedOptions } from './command-spec.ts'

/** Without words it prints the script, with words what may stand where the last of them is. */
export const completion: Handler = async (invocation) => {
  const { output, args, commands } = invocation
  const [name = '', ...words] = args
  if (words.length === 0) {
    const script = readFileSync(shipped('templates', 'completion', name), 'utf8').trimEnd()
    output.line(script)
    output.summary('completion', { shell: name, script })
    return 0
  }
  const found = completeWords(commands, words, () => pipelineNames(invocation, words))
  for (const candidate of found) {
    output.line(shown[name]?.(candidate))
    output.event({ event: 'candidate', ...candidate })
  }
  output.summary('completion', { shell: name, candidates: found.length })
  return 0
}

/** By the line that names each; a definition that is wrong otherwise still has its name. */
const pipelineNames = (invocation: Invocation, words: readonly string[]): readonly string[] => {
  const named = words[words.indexOf('--pipelines') + 1]
  const options = words.includes('--pipelines') ? { pipelines: named } : {}
  const folder = pipelinesFolder({ ...invocation, options })
  return [...new Set(definitionTexts(folder).flatMap((text) => /^pipeline:\s*["']?(\w+)/m.exec(text)?.[1] ?? []))].sort()
}

/** The first sentence: a line of a menu has no room for more. */
const short = (about: string): string => about.split(/[;:.]/)[0] ?? ''

/** How each shell takes a candidate; its script is in templates/completion. */
const shown: Readonly<Record<string, (candidate: Candidate) => string>> = {
  bash: ({ text }) => text,
  zsh: ({ text, about }) => `${text.replaceAll(':', '\\:')}:${short(about)}`,
  fish: ({ text, about }) => `${text}\t${short(about)}`,
}

interface Candidate {
  readonly text: string
  readonly about: string
}

const help: OptionSpec = { flags: '--help', description: 'what the command takes' }

/**
 * Empty where anything may stand, a file for instance.
 * @param words after `millrace`, the last one as far as it is typed
 * @param pipelines names of the definitions; asked for only where one may stand
 */
export const completeWords = (commands: readonly CommandSpec[], words: readonly string[], pipelines: () => readonly string[]) => {
  const current = words.at(-1) ?? ''
  const [name] = words
  const fits = (all: readonly Candidate[]): readonly Candidate[] => all.filter(({ text }) => text.startsWith(current))
  if (words.length <= 1)
    return fits(commands.map(({ usage, description }) => ({ text: usage.split(' ')[0] ?? '', about: description })))
  const command = commands.find(({ usage }) => usage.split(' ')[0] === name)
  if (command === undefined) return []
  const options = [...(command.options ?? []), ...sharedOptions, help]
  const asking = optionOf(options, words.at(-2) ?? '')
  if (asking !== undefined && takesValue(asking)) return fits((asking.values ?? []).map((text) => ({ text, about: '' })))
  if (current.startsWith('-')) return fits(options.map((option) => ({ text: flagOf(option), about: option.description })))
  return fits(argumentCandidates(command, positionOf(words, options), pipelines))
}

const flagOf = ({ flags }: OptionSpec): string => /--[a-z-]+/.exec(flags)?.[0] ?? ''
const takesValue = ({ flags }: OptionSpec): boolean => /[<[]/.test(flags)
const optionOf = (options: readonly OptionSpec[], word: string): OptionSpec | undefined =>
  options.find((option) => flagOf(option) === word)

/** How many arguments stand before the current word; what belongs to an option is none. */
const positionOf = (words: readonly string[], options: readonly OptionSpec[]): number =>
  words.slice(1, -1).filter((word, index) => {
    const before = optionOf(options, words[index] ?? '')
    return !word.startsWith('-') && (before === undefined || !takesValue(before))
  }).length

/** `[pipeline...]` is a name of a definition, `<list|show|retry>` one of these words. */
const argumentCandidates = ({ usage }: CommandSpec, position: number, pipelines: () => readonly string[]) => {
  const [, ...parts] = usage.split(' ').map((part) => part.replaceAll(/[<>[\]]/g, ''))
  const part = parts[position] ?? parts.findLast((one) => one.endsWith('...'))
  if (part === undefined) return []
  if (part.includes('|')) return part.split('|').map((text) => ({ text, about: '' }))
  return part === 'pipeline...' ? pipelines().map((text) => ({ text, about: 'pipeline' })) : []
}
