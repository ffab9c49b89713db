// Whether migrations only make what is not there: those may be tried in `check`, because no load and no reader waits for a lock of theirs.

const name = String.raw`(?:"?\w+"?\.)?"?\w+"?`

/** Statements that make one thing. `if not exists` is none: the thing may be there. */
const makes = /^\s*create\s+(?:unlogged\s+)?(?:table|schema|index|unique\s+index|sequence|function|view)\b/i
const harmless = /^\s*create\s+schema\b|^\s*comment\s+on\s+(?:schema|function|sequence)\b/i
const newTable = new RegExp(String.raw`^\s*create\s+(?:unlogged\s+)?table\s+(?!if\s+not\s+exists)(${name})`, 'i')

/** Where a statement names a table that it locks or writes: an index, a comment or rows for it, a foreign key to it, a part of it. */
const locks = [
  new RegExp(String.raw`^\s*create\s+(?:unique\s+)?index\b[^(]*?\bon\s+(?:only\s+)?(${name})`, 'i'),
  new RegExp(String.raw`^\s*comment\s+on\s+(?:table|view)\s+(${name})`, 'i'),
  /^\s*comment\s+on\s+column\s+((?:"?\w+"?\.)?"?\w+"?)\."?\w+"?\s/i,
  new RegExp(String.raw`^\s*insert\s+into\s+(${name})`, 'i'),
  new RegExp(String.raw`\breferences\s+(${name})`, 'gi'),
  new RegExp(String.raw`\bpartition\s+of\s+(${name})`, 'gi'),
  new RegExp(String.raw`\binherits\s*\(\s*(${name})`, 'gi'),
]

const bare = (written: string): string => written.replaceAll('"', '').toLowerCase()

const lockedBy = (statement: string): string[] =>
  locks.flatMap((pattern) => [...statement.matchAll(new RegExp(pattern, 'gi'))].map(([, written = '']) => bare(written)))

/**
 * The first statement that touches what is there, or could: an unknown kind of statement counts as one that does. null: there is none.
 * @param statements of all pending migrations, in order: what an earlier one makes, a later one may index, fill and comment
 */
export const touchesWhatIsThere = (statements: readonly string[]): string | null => {
  const made = new Set<string>()
  for (const statement of statements) {
    const locked = lockedBy(statement)
    const isKnown = makes.test(statement) || harmless.test(statement) || /^\s*(?:insert|comment)\b/i.test(statement)
    if (!isKnown || locked.some((table) => !made.has(table))) return statement
    // A comment or rows for what was not recognized above.
    if (locked.length === 0 && /^\s*(?:insert|comment)\b/i.test(statement) && !harmless.test(statement)) return statement
    const table = newTable.exec(statement)?.[1]
    if (table !== undefined) made.add(bare(table))
  }
  return null
}
