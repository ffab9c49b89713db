// docs/internals/reliability.md, one section at a time: a harness replaces its own and leaves the others as they are.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'

const page = resolve(import.meta.dirname, '..', '..', 'docs', 'internals', 'reliability.md')
const opening =
  '# Reliability\n\nEach promise is tested by fault injection. Every figure here was written by the program that measured it.\n'

/** The section as it stands; empty: there is none. */
export const sectionNow = (title: string): string =>
  (existsSync(page) ? readFileSync(page, 'utf8') : '').split(/^(?=## )/m).find((part) => part.startsWith(`## ${title}\n`)) ?? ''

/** Puts `body` under `## title`, in place of what stood there. */
export const writeSection = (title: string, body: string): void => {
  const text = existsSync(page) ? readFileSync(page, 'utf8') : opening
  const parts = text.split(/^(?=## )/m)
  const section = `## ${title}\n\n${body.trim()}\n`
  const at = parts.findIndex((part) => part.startsWith(`## ${title}\n`))
  if (at < 0) parts.push(`${parts.pop()?.trimEnd() ?? ''}\n\n${section}`)
  else parts[at] = at === parts.length - 1 ? section : `${section}\n`
  writeFileSync(page, parts.join(''))
}
