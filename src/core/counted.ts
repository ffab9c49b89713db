// Numbers with their noun for people; sums over lists, in total or by group.

const groups = new Intl.NumberFormat('en-US')

/** `1,234,567`; also from a number as text. */
export const formatNumber = (value: number | string | bigint): string =>
  groups.format(Number.isInteger(Number(value)) ? BigInt(value) : Number(value))

/** `1 unit`, `2,000 units`. */
export const counted = (value: number, noun: string): string => {
  const whole = Math.round(value)
  return `${formatNumber(whole)} ${noun}${whole === 1 ? '' : 's'}`
}

/** `about 12 credits`, but `0 credits` without "about". @param credits null: not known */
export const aboutCredits = (credits: number | null): string =>
  credits === null ? 'price not known' : `${credits === 0 ? '' : 'about '}${counted(credits, 'credit')}`

type FigureOf<One> = { [Key in keyof One]-?: One[Key] extends number | null ? Key : never }[keyof One] & string

/** null counts as 0. @param pick a field's name, or a function of the item */
export const sum = <One>(all: readonly One[], pick: FigureOf<One> | ((one: One) => number | null)): number =>
  all.reduce((total, one) => total + (typeof pick === 'string' ? Number(one[pick]) : (pick(one) ?? 0)), 0)

/** The sums of several fields, by their names. */
export const sums = <Name extends string>(all: readonly Readonly<Record<Name, number | null>>[], ...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, sum(all, (one) => one[name])])) as Readonly<Record<Name, number>>

/** One result a group of items with equal keys, in the order of first appearance. @param made gets the first item, then all */
export const groupedBy = <One, Made>(
  all: readonly One[],
  keyOf: (one: One) => string,
  made: (first: One, group: readonly One[]) => Made,
): Made[] => [...Map.groupBy(all, keyOf).values()].flatMap((group) => group.slice(0, 1).map((first) => made(first, group)))

/** `1.2 MB`, in thousands. */
export const formatBytes = (bytes: number): string => {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
