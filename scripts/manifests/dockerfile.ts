// A Dockerfile's mistakes: its grammar, and what an image of ours promises.
import { validate } from 'dockerfile-utils'

const instructions = (text: string): { word: string; rest: string; line: number }[] => {
  const found: { word: string; rest: string; line: number }[] = []
  let joined = ''
  let start = 0
  for (const [index, line] of text.split('\n').entries()) {
    if (/^\s*(#|$)/.test(line)) continue
    if (joined === '') start = index + 1
    joined += line.replace(/\\\s*$/, ' ')
    if (/\\\s*$/.test(line)) continue
    const [word = '', ...rest] = joined.trim().split(/\s+/)
    found.push({ word: word.toUpperCase(), rest: rest.join(' '), line: start })
    joined = ''
  }
  return found
}

/** Problems as `name:line: what`, none where the file is good. */
export const lintDockerfile = (name: string, text: string): string[] => {
  const grammar = validate(text).map(({ range, message }) => `${name}:${range.start.line + 1}: ${message}`)
  return [...grammar, ...promises(name, text)]
}

const promises = (name: string, text: string): string[] => {
  const all = instructions(text)
  const last = all.slice(all.findLastIndex(({ word }) => word === 'FROM'))
  const user = last.findLast(({ word }) => word === 'USER')
  const problems: string[] = []
  if (user === undefined || !/^[1-9]\d*(:\d+)?$/.test(user.rest))
    problems.push(
      `${name}:${user?.line ?? 1}: the image runs as ${user?.rest ?? 'root'}; end with a number of a user, such as USER 1000:1000.`,
    )
  if (!last.some(({ word }) => word === 'HEALTHCHECK')) problems.push(`${name}: no HEALTHCHECK in the last stage.`)
  for (const { word, rest, line } of all) {
    const shell = (word === 'ENTRYPOINT' || word === 'CMD') && !rest.startsWith('[')
    if (shell) problems.push(`${name}:${line}: ${word} runs in a shell, which keeps signals from us; write it as a list.`)
    if (word === 'ADD') problems.push(`${name}:${line}: ADD also unpacks and downloads; use COPY.`)
    if (word === 'FROM' && !rest.startsWith('$') && !/:(?!latest\b)\S+|@sha256:/.test(rest))
      problems.push(`${name}:${line}: FROM ${rest} names no version.`)
  }
  return problems
}
