// How readable the pages are: words that are avoided (house style), lengths of lines and sentences. `node scripts/readability.ts` prints the figures;
// `-- --write` puts them into decision 11, with those of a revision beside them where one is named (`--before REVISION`).
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'

const root = resolve(import.meta.dirname, '..')

/** Longest line of a page, table rows included. */
export const longestLine = 200

/** Words that readers stumble over; the right-hand side is what to write. */
export const avoided: readonly (readonly [RegExp, string])[] = [
  [/\b(?:looks?|looked|looking) (?:at|around|again|into)\b|\ba look\b|\blook around\b/i, 'check, poll, fetch, read'],
  [/\bwalk(?:s|ed|ing)?\b/i, 'page through, pagination'],
  [/\beditions? \d|\b(?:first|second|next|each) edition\b/i, 'refresh n, attempt n'],
  [/\b(?:goes|go|went) on\b/i, 'resumes, continues; run it again to resume'],
  [/\bthe long way\b/i, 'falls back to staging and merge'],
  [/\banswer is on its way\b/i, 'in-flight submission'],
  [/\bby force\b/i, 'with `--force`; tested by fault injection'],
  [/\bnot said\b|\bsaid to be so\b/i, 'not measured, not reported'],
  [/\b(?:mends?|mended|heals?|healed)\b/i, 'fixes, recovers'],
  [/\bno unit fits\b/i, 'no matching units'],
  [/\bspare[ds]\b/i, 'skipped, unchanged at the source'],
  [/\bstands?\b(?!-)/i, 'is, appears, is recorded'],
  [/\b(?:told|heard)\b/i, 'notified, distinguished, received'],
  [/\banew\b/i, 'again'],
  [/\bcosts? nothing but\b/i, 'loses nothing'],
  [/\bhangs together\b/i, 'relationships'],
  [/\bparts the\b/i, 'separates'],
  [/\b(?:purse|homeless)\b/i, 'budget, unassigned'],
  [/\bnights? may cost\b/i, 'nightly limit'],
  [/\bforetold\b|\bat its end\b/i, 'forecast, at month end'],
  [/\b(?:is|are) at work\b/i, 'is in progress'],
  [/\b(?:nothing|else|what) needs a person\b/i, 'no action needed; approval needed'],
  [/\b(?:nobody|whoever)\b/i, 'the one who acts: a person, a process, no other run'],
  [/\bvalues? of the lists\b/i, 'a domain, a country'],
]

/** README and the pages for users; docs/internals tells how things were found and is left out. */
export const pages: readonly string[] = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name))
    .sort(),
]

/** A page as people read it: without code, names in code style and addresses of links. */
export const proseOf = (text: string): string =>
  text
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .replaceAll(/``?[^`]*`?`/g, 'NAME')
    .replaceAll(/\]\([^)]*\)/g, ']')

/** `line: word (instead: …)` of each avoided word. */
export const oddWords = (text: string): string[] =>
  text
    .split('\n')
    .flatMap((line, index) =>
      avoided.flatMap(([word, instead]) =>
        word.test(line) ? [`${index + 1}: ${word.exec(line)?.[0]} (instead: ${instead})`] : [],
      ),
    )

/** Words a sentence, by sentences of running text. */
const sentencesOf = (prose: string): number[] =>
  prose
    .replaceAll(/^(?:<!--.*-->|\|.*)$/gm, '')
    .split('\n\n')
    .filter((part) => !/^\s*(?:\||#)/.test(part))
    .flatMap((part) => part.split(/[.!?](?:\s|$)|\n(?=\s*[-*] )/))
    .map((sentence) => sentence.split(/\s+/).filter((word) => /\w/.test(word)).length)
    .filter((words) => words > 1)

/** Figures over pages that are given as text. */
export const figuresOf = (texts: readonly string[]) => {
  const prose = texts.map(proseOf)
  const sentences = prose.flatMap(sentencesOf)
  const words = prose.join(' ').split(/\s+/).length
  const odd = prose.flatMap(oddWords).length
  const lines = texts.flatMap((text) => text.split('\n'))
  return {
    words,
    wordsPerSentence: Number((sentences.reduce((sum, one) => sum + one, 0) / sentences.length).toFixed(1)),
    longSentences: `${((100 * sentences.filter((one) => one > 25).length) / sentences.length).toFixed(1)} %`,
    oddWords: odd,
    oddPerThousand: Number(((1000 * odd) / words).toFixed(2)),
    longLines: lines.filter((line) => line.length > longestLine).length,
  }
}

type Figures = ReturnType<typeof figuresOf>

/** The table of decision 11. @param before figures of an earlier state; null: those the page has stay */
export const withFigures = (page: string, after: Figures, before: Figures | null): string =>
  page.replace(/(<!-- figures: [^\n]*\n)([\s\S]*?)(<!-- end)/, (_, opening: string, table: string, end: string) => {
    const former = table.split('\n').map((line) => line.split(' | ')[1] ?? '')
    const rows = linesOf(after).map(([name, now], index) => {
      const then = before === null ? (former[index + 2] ?? '') : (linesOf(before)[index]?.[1] ?? '')
      return `| ${name} | ${then} | ${now} |`
    })
    return `${opening}${['| README and docs | before | after |', '| --- | --- | --- |', ...rows].join('\n')}\n${end}`
  })

const linesOf = (figures: Figures): readonly (readonly [string, string])[] => [
  ['words', figures.words.toLocaleString('en-US')],
  ['words to avoid', `${figures.oddWords} (${figures.oddPerThousand} in 1,000 words)`],
  ['lines over 200 characters', String(figures.longLines)],
  ['words a sentence, mean', String(figures.wordsPerSentence)],
  ['sentences of more than 25 words', figures.longSentences],
]

const namesIn = (list: readonly string[]): string[] => list.filter((name) => /^(?:README|docs\/[^/]+)\.md$/.test(name))

/** @param revision as git knows it */
const figuresAt = (revision: string): Figures => {
  const git = (...args: string[]): string => execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  const names = namesIn(git('ls-tree', '-r', '--name-only', revision).split('\n'))
  return figuresOf(names.map((name) => git('show', `${revision}:${name}`)))
}

if (process.argv[1] === import.meta.filename) {
  const { values } = parseArgs({ options: { write: { type: 'boolean', default: false }, before: { type: 'string' } } })
  const now = figuresOf(pages.map((name) => readFileSync(join(root, name), 'utf8')))
  process.stdout.write(`${JSON.stringify(now, null, 2)}\n`)
  const page = join(root, 'docs', 'internals', 'decisions', '0011-plain-words.md')
  const before = values.before === undefined ? null : figuresAt(values.before)
  if (values.write) writeFileSync(page, withFigures(readFileSync(page, 'utf8'), now, before))
}
