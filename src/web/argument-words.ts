// What a run was started with, as words.
type Arguments = Readonly<Record<string, unknown>>

const words: Readonly<Record<string, (value: unknown, all: Arguments) => string | null>> = {
  pipelines: (value) => (Array.isArray(value) && value.length > 0 ? value.join(', ') : 'all pipelines'),
  pipeline: (value) => String(value),
  from: (value, { to }) => (value === to ? String(value) : `${String(value)} to ${String(to)}`),
  to: () => null,
  only: (value) => `only ${String(value)}`,
  force: (value) => (value === true ? 'also what is loaded' : null),
  months: (value) => `${String(value)} months`,
  units: (value) => (Array.isArray(value) ? `units ${value.map((id) => `#${String(id)}`).join(', ')}` : null),
  answer: (value) => `answer #${String(value)}`,
  approved: (value) => (value === true ? 'what was approved' : null),
  due_at: (value) => `due ${String(value).slice(0, 16).replace('T', ' ')} UTC`,
}

/** `sales, 2026-01 to 2026-03, also what is loaded`; an argument that has no words keeps its name. */
export const argumentWords = (given: unknown): string => {
  const all: Arguments = typeof given === 'object' && given !== null ? Object.fromEntries(Object.entries(given)) : {}
  const order = Object.keys(words)
  // The ledger keeps them in an order of its own.
  const entries = Object.entries(all).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b))
  const parts = entries.flatMap(([name, value]) => {
    if (value === null) return []
    const word = words[name]
    return word === undefined ? [`${name}: ${JSON.stringify(value)}`] : (word(value, all) ?? [])
  })
  return parts.length === 0 ? 'none' : parts.join(', ')
}
