// The part of the changelog that belongs to one version, and what is wrong with it: sorted under Breaking, Added, Changed and Fixed, and no longer than a screen.
const kinds = ['Breaking', 'Added', 'Changed', 'Fixed']

/** What fits a screen. */
export const mostLines = 50

export interface ReleaseNotes {
  /** Without the heading. */
  readonly text: string
  /** The day the version came out; null: not yet. */
  readonly day: string | null
  readonly problems: readonly string[]
}

/** @param version as package.json names it */
export const releaseNotes = (changelog: string, version: string): ReleaseNotes => {
  const sections = changelog.split(/^(?=## )/m)
  const section = sections.find((one) => one.split(/\s/, 2)[1] === version)
  if (section === undefined) return { text: '', day: null, problems: [`CHANGELOG.md has no section '## ${version}'.`] }
  const [heading = '', ...lines] = section.trimEnd().split('\n')
  const text = lines.join('\n').trim()
  const day = /\((\d{4}-\d{2}-\d{2})\)$/.exec(heading)?.[1] ?? null
  const found = [...text.matchAll(/^### (.*)$/gm)].map(([, kind = '']) => kind)
  const loose = text.split(/^### /m, 1)[0] ?? ''
  const count = (loose.match(/^- /gm) ?? []).length
  const rows = text.split('\n').length
  const known = found.filter((kind) => kinds.includes(kind))
  const inOrder = kinds.filter((kind) => found.includes(kind))
  return {
    text,
    day,
    problems: [
      ...(text === '' ? ['It says nothing.'] : []),
      ...(count > 0 ? [`${count} line${count === 1 ? '' : 's'} above the first heading: sort under ${kinds.join(', ')}.`] : []),
      ...found.filter((kind) => !kinds.includes(kind)).map((kind) => `'### ${kind}' is none of ${kinds.join(', ')}.`),
      ...(known.join() === inOrder.join() ? [] : [`Its headings belong in this order, each once: ${inOrder.join(', ')}.`]),
      ...(rows > mostLines ? [`It has ${rows} lines; ${mostLines} fit a screen.`] : []),
    ],
  }
}
