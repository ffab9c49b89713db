// Whether a cron expression means something: five fields, in range, on a day that exists.
interface Field {
  readonly name: string
  readonly least: number
  readonly most: number
  readonly words: readonly string[]
}

const months = 'january february march april may june july august september october november december'.split(' ')
const weekdays = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ')
const longestMonth = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

const fields: readonly Field[] = [
  { name: 'minute', least: 0, most: 59, words: [] },
  { name: 'hour', least: 0, most: 23, words: [] },
  { name: 'day of the month', least: 1, most: 31, words: [] },
  { name: 'month', least: 1, most: 12, words: months },
  { name: 'weekday', least: 0, most: 7, words: weekdays },
]

/** What is wrong with `text` as a cron expression, or null. */
export const cronProblem = (text: string): string | null => {
  const parts = text.trim().split(/\s+/)
  if (parts.length !== 5) {
    return `'${text}' has ${parts.length} field(s), expected 5: minute hour day month weekday, for example "30 2 * * *".`
  }
  const sets: ReadonlySet<number>[] = []
  for (const [index, field] of fields.entries()) {
    const set = valuesOf(parts[index] ?? '', field)
    if (set === null)
      return `'${parts[index]}' is not a ${field.name} (${field.least} to ${field.most}, *, lists, ranges, steps).`
    sets.push(set)
  }
  return impossibleDay(parts, sets)
}

const impossibleDay = (parts: readonly string[], sets: readonly ReadonlySet<number>[]): string | null => {
  if (parts[2] === '*') return null
  const firstDay = Math.min(...(sets[2] ?? []))
  const possible = [...(sets[3] ?? [])].some((month) => firstDay <= (longestMonth[month - 1] ?? 0))
  return possible ? null : `day ${firstDay} never comes in the month(s) '${parts[3]}'; choose a day that exists.`
}

/** The values a field stands for; null when it is not understood. */
const valuesOf = (text: string, field: Field): ReadonlySet<number> | null => {
  const all = new Set<number>()
  for (const item of text.split(',')) {
    const [, range = '', stepText] = /^([^/]+)(?:\/(\d+))?$/.exec(item) ?? []
    const bounds = range === '*' ? [field.least, field.most] : rangeOf(range, field)
    const step = stepText === undefined ? 1 : Number(stepText)
    // node-cron knows steps of * and of ranges alone.
    if (bounds === null || step < 1 || (stepText !== undefined && bounds.length === 1)) return null
    const [first = 0, last = first] = bounds
    if (first > last || first < field.least || last > field.most) return null
    for (let value = first; value <= last; value += step) all.add(value)
  }
  return all
}

const rangeOf = (text: string, field: Field): number[] | null => {
  const ends = text.split('-').map((end) => numberOf(end, field))
  return ends.length > 2 || ends.some((end) => end === null) ? null : ends.filter((end) => end !== null)
}

const numberOf = (text: string, field: Field): number | null => {
  if (/^\d{1,2}$/.test(text)) return Number(text)
  const word = field.words.findIndex((name) => [name, name.slice(0, 3)].includes(text.toLowerCase()))
  return word === -1 ? null : word + field.least
}
