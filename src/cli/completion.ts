// `millrace completion SHELL`: the script by which bash, zsh or fish asks this program for candidates, and the candidates: commands, options, their
// values, names of pipelines.
import { readFileSync } from 'node:fs'
import { type Command, Option } from 'commander'
import { shipped } from '../core/shipped.ts'
import { definitionTexts, pipelinesFolder } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'

/** Without words prints the script; with words prints the candidates for the last of them. */
export const completion: Handler = async (invocation) => {
  const { output, args, program } = invocation
  const [name = '', ...words] = args
  if (words.length === 0) {
    const script = readFileSync(shipped('templates', 'completion', name), 'utf8').trimEnd()
    output.line(script)
    output.summary('completion', { shell: name, script })
    return 0
  }
  const found = completeWords(program, words, () => pipelineNames(invocation, words))
  for (const candidate of found) {
    output.line(shown[name]?.(candidate))
    output.event({ event: 'candidate', ...candidate })
  }
  output.summary('completion', { shell: name, candidates: found.length })
  return 0
}

/** Reads only the line with the name, so that also an invalid definition has its name completed. */
const pipelineNames = (invocation: Invocation, words: readonly string[]): readonly string[] => {
  const named = words[words.indexOf('--pipelines') + 1]
  const options = words.includes('--pipelines') ? { pipelines: named } : {}
  const folder = pipelinesFolder({ ...invocation, options })
  return [...new Set(definitionTexts(folder).flatMap((text) => /^pipeline:\s*["']?(\w+)/m.exec(text)?.[1] ?? []))].sort()
}

/** The first sentence, which fits into a line of a menu. */
const short = (about: string): string => about.split(/[;:.]/)[0] ?? ''

/** The form of a candidate for each shell; the scripts are in templates/completion. */
const shown: Readonly<Record<string, (candidate: Candidate) => string>> = {
  bash: ({ text }) => text,
  zsh: ({ text, about }) => `${text.replaceAll(':', '\\:')}:${short(about)}`,
  fish: ({ text, about }) => `${text}\t${short(about)}`,
}

interface Candidate {
  readonly text: string
  readonly about: string
}

const help = new Option('--help', 'what the command takes')
const plain = (texts: readonly string[] = [], about = ''): readonly Candidate[] => texts.map((text) => ({ text, about }))

/**
 * Candidates for the last word; empty where any text is allowed, for example a file.
 * @param words after `millrace`; the last one may be incomplete
 * @param pipelines names of the definitions; called only where one is allowed
 */
export const completeWords = (program: Command, words: readonly string[], pipelines: () => readonly string[]) => {
  const current = words.at(-1) ?? ''
  const fits = (all: readonly Candidate[]): readonly Candidate[] => all.filter(({ text }) => text.startsWith(current))
  if (words.length <= 1) return fits(program.commands.map((one) => ({ text: one.name(), about: one.description() })))
  const command = program.commands.find((one) => one.name() === words[0])
  if (command === undefined) return []
  const options = [...command.options, help]
  const optionOf = (word: string | undefined) => options.find(({ long }) => long === word)
  const asking = optionOf(words.at(-2))
  if (asking?.required === true) return fits(plain(asking.argChoices))
  if (current.startsWith('-')) return fits(options.map(({ long, description }) => ({ text: long ?? '', about: description })))
  // The value of an option is no argument.
  const given = words.slice(1, -1).filter((word, at) => !word.startsWith('-') && optionOf(words[at])?.required !== true)
  const known = command.registeredArguments
  const argument = known[given.length] ?? known.findLast(({ variadic }) => variadic)
  return fits(argument?.name() === 'pipeline' ? plain(pipelines(), 'pipeline') : plain(argument?.argChoices))
}
