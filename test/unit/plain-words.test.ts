// What people read is in plain words: pages, help and messages hold none of the words to avoid, and pages no line over 200 characters.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { buildProgram } from '../../src/cli/main.ts'
import { longestLine, oddWords, pages, proseOf } from '../../scripts/readability.ts'
import { listFiles } from '../../scripts/structure.ts'

const root = resolve(import.meta.dirname, '..', '..')

describe.each(pages)('%s', (page) => {
  const text = readFileSync(join(root, page), 'utf8')

  test('has no line over 200 characters', () => {
    const long = text.split('\n').flatMap((line, index) => (line.length > longestLine ? [`${index + 1}: ${line.length}`] : []))
    expect(long).toEqual([])
  })

  test('is in plain words', () => {
    expect(oddWords(proseOf(text))).toEqual([])
  })
})

describe('the help', () => {
  const never = { signal: new AbortController().signal, isSignalled: () => false, stop: () => undefined }
  const program = buildProgram(commands, never, () => undefined)
  const helps = [program, ...program.commands].map((command) => command.helpInformation())

  test('is in plain words', () => {
    expect(helps.flatMap(oddWords)).toEqual([])
  })

  test('breaks at words at 80 columns, examples included', () => {
    const examples = commands.flatMap((command) => command.examples.map((example) => `  ${example}`))
    expect([...helps.flatMap((help) => help.split('\n')), ...examples].filter((line) => line.length > 80)).toEqual([])
  })
})

test('messages are in plain words', () => {
  const wrong = listFiles(join(root, 'src')).flatMap((file) =>
    messagesOf(readFileSync(file, 'utf8'))
      .flatMap((message) => oddWords(message.replaceAll(/\\?`[^`]*`/g, 'NAME').replaceAll(/\$\{[^}]*\}/g, 'VALUE')))
      .map((found) => `${file.slice(root.length + 1)}: ${found.replace(/^\d+: /, '')}`),
  )
  expect(wrong).toEqual([])
})

/** Texts in quotes that have a space and lie on one line of code: what people read; statements of SQL are left out. */
const messagesOf = (code: string): string[] =>
  code
    .split('\n')
    .filter((line) => !/^\s*(?:\/\/|\/?\*|import )/.test(line))
    .flatMap((line) => [...line.matchAll(/'((?:[^'\\]|\\.)* (?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)* (?:[^`\\]|\\.)*)`/g)])
    .map(([, quoted, template]) => quoted ?? template ?? '')
    // What begins so lies between two texts, not in one.
    .filter((text) => !/^[),\]]/.test(text))
    .filter((text) => !/\b(?:select|where|case when|coalesce|from|join)\b.*(?:[=(]|::)/.test(text))
