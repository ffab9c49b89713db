// Small wrong turns in SQL: a comparison, a connective, a condition or an assignment that is not there.

/** A part of a text and what stands there instead. */
export interface Edit {
  readonly kind: string
  readonly start: number
  readonly end: number
  readonly text: string
}

/** Found word by word; the first group, if any, is what is replaced. */
const swaps: readonly (readonly [RegExp, string])[] = [
  [/ <= /g, ' < '],
  [/ >= /g, ' > '],
  [/ < /g, ' <= '],
  [/ > /g, ' >= '],
  [/ <> /g, ' = '],
  [/ is not null\b/g, ' is null'],
  [/ is null\b/g, ' is not null'],
  [/ is distinct from /g, ' is not distinct from '],
  [/ is not distinct from /g, ' is distinct from '],
  [/\bnot exists\b/g, 'exists'],
  [/(?<!not )\bexists\b(?= \()/g, 'not exists'],
  [/ or /g, ' and '],
  [/\bmax\(/g, 'min('],
  [/\bsum\(/g, 'max('],
  [/\+ 1\b/g, '+ 2'],
  [/ - 1\b/g, ' - 2'],
  [/(?<== )true\b/g, 'false'],
  [/(?<== )false\b/g, 'true'],
  [/ full join /g, ' left join '],
  [/ left join /g, ' join '],
  [/ distinct on \([^)]*\)/g, ''],
  [/ desc\b/g, ''],
  [/ for update\b/g, ''],
]

/** End of the expression that begins at `from`: where its bracket closes or a word of the next clause comes. */
const endOfCondition = (text: string, from: number): number => {
  let depth = 0
  for (let at = from; at < text.length; at += 1) {
    const char = text.charAt(at)
    if ('([{'.includes(char)) depth += 1
    else if (')]}'.includes(char)) depth -= 1
    if (depth < 0) return at
    if (
      depth === 0 &&
      at > from &&
      /^\s(?:and|or|returning|order by|group by|limit|then|end|union|on conflict)\b/.test(text.slice(at))
    )
      return at
  }
  return text.length
}

/** Each conjunct but the first left out, and each turned from `and` to `or`. */
const conjuncts = (text: string): Edit[] =>
  [...text.matchAll(/\sand\s/g)].flatMap((match) => {
    const start = match.index
    const end = endOfCondition(text, start + match[0].length)
    return [
      { kind: 'sql: conjunct left out', start, end, text: '' },
      { kind: 'sql: and > or', start, end: start + match[0].length, text: ' or ' },
    ]
  })

/** Assignments of `update … set` left out, but for moments nobody decides by. */
const assignments = (text: string): Edit[] => {
  const edits: Edit[] = []
  for (const { index } of text.matchAll(/\bupdate\b[^;]*?\bset\b/g)) {
    const start = text.indexOf(' set ', index) + 5
    let depth = 0
    let from = start
    for (let at = start; at <= text.length; at += 1) {
      const char = text.charAt(at)
      if ('([{'.includes(char) && char !== '') depth += 1
      else if (')]}'.includes(char) && char !== '') depth -= 1
      const over = depth < 0 || at === text.length || (depth === 0 && /^\s+(?:where|from)\b/.test(text.slice(at)))
      if (!over && !(depth === 0 && char === ',')) continue
      const one = text.slice(from, at)
      if (!over && !one.includes('updated_at'))
        edits.push({ kind: 'sql: assignment left out', start: from, end: at + 1, text: '' })
      if (over) break
      from = at + 1
    }
  }
  return edits
}

/** @param text source of a template literal, with its `${…}` in it; offsets are into it. */
export const sqlEdits = (text: string): Edit[] => {
  const swapped = swaps.flatMap(([pattern, replacement]) =>
    [...text.matchAll(pattern)].map((match) => ({
      kind: `sql: ${match[0].trim()} > ${replacement.trim() || 'nothing'}`,
      start: match.index,
      end: match.index + match[0].length,
      text: replacement,
    })),
  )
  // What stands inside `${…}` is TypeScript and has its own edits.
  const holes = holesOf(text)
  const inside = ({ start }: Edit): boolean => holes.some(([from, to]) => start > from && start < to)
  return [...swapped, ...conjuncts(text), ...assignments(text)].filter((edit) => !inside(edit))
}

const holesOf = (text: string): [number, number][] => {
  const holes: [number, number][] = []
  for (let at = text.indexOf('${'); at !== -1; at = text.indexOf('${', at)) {
    const from = at
    let depth = 0
    for (at += 1; at < text.length; at += 1) {
      if (text.charAt(at) === '{') depth += 1
      else if (text.charAt(at) === '}') depth -= 1
      if (depth === 0) break
    }
    holes.push([from, at])
  }
  return holes
}
