// Views of bi and their columns as the definitions and the marts' headers tell them, for documents that are made without a database.
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { columnComment, dimensionWords, freshnessComments, grainOf, lineageComments } from './comments.ts'
import { historyColumns, viewColumns } from './views.ts'

/** A table or view of bi in words. */
export interface DescribedView {
  readonly name: string
  readonly about: string
  readonly columns: readonly DescribedColumn[]
}

/** A type of PostgreSQL; null: unknown. */
interface DescribedColumn {
  readonly name: string
  readonly type: string | null
  readonly about: string
}

/** Columns that every fact or history has. */
const lineageTypes: Readonly<Record<string, string>> = {
  is_final: 'boolean',
  restated_at: 'timestamptz',
  valid_from: 'timestamptz',
  valid_to: 'timestamptz',
  is_current: 'boolean',
  _version: 'integer',
  _unit_id: 'bigint',
  _run_id: 'bigint',
  _revision: 'integer',
  _loaded_at: 'timestamptz',
}

/** Columns of a fact or its history, by their names. */
const columnsOf = ({ columns }: Definition, names: readonly string[]): DescribedColumn[] =>
  names.map((name) => {
    const own = columns.find((column) => column.name === name)
    return own === undefined
      ? { name, type: lineageTypes[name] ?? null, about: lineageComments[name] ?? '' }
      : { name, type: own.type, about: columnComment(own) }
  })

/** Facts with their histories, marts, dimensions and freshness; a mart's columns are those its header explains, its key, and those its grain names. */
export const describedViews = (definitions: readonly Definition[], marts: readonly Mart[]): readonly DescribedView[] => {
  const published = definitions.filter(({ publish }) => publish)
  const facts = published.map((definition) => ({
    name: definition.pipeline,
    about: `${definition.description} ${grainOf(definition)}`,
    columns: columnsOf(definition, viewColumns(definition)),
  }))
  const histories = published.map((definition) => ({
    name: `${definition.pipeline}_history`,
    about: `Every revision of bi.${definition.pipeline}, ended ones included.`,
    columns: columnsOf(definition, historyColumns(definition)),
  }))
  const others = dimensionWords(published).map(({ name, about, columns }) => ({ name, about, columns: said(columns) }))
  const freshness = {
    name: 'freshness',
    about: 'How fresh each pipeline is. One row per pipeline and version.',
    columns: said(freshnessComments),
  }
  const known = new Map([...facts.flatMap(({ columns }) => columns)].map((column) => [column.name, column]))
  const views = marts.map((mart) => martView(mart, known, new Set(marts.flatMap(({ columns }) => [...columns.keys()]))))
  return [...facts, ...histories, ...views, ...others, freshness].sort((a, b) => (a.name < b.name ? -1 : 1))
}

const said = (columns: Readonly<Record<string, string>>): DescribedColumn[] =>
  Object.entries(columns).map(([name, about]) => ({ name, type: typeOf(name, about), about }))

const martView = (mart: Mart, known: ReadonlyMap<string, DescribedColumn>, explained: ReadonlySet<string>): DescribedView => {
  const inGrain = (mart.grain.split(/[.:;]| in which/)[0] ?? '').match(/\b[a-z_][a-z0-9_]*\b/g) ?? []
  const names = [...mart.key, ...inGrain.filter((name) => known.has(name) || explained.has(name)), ...mart.columns.keys()]
  const columns = [...new Set(names)].map((name): DescribedColumn => {
    const about = mart.columns.get(name)
    return about === undefined ? (known.get(name) ?? { name, type: null, about: '' }) : { name, type: typeOf(name, about), about }
  })
  return { name: mart.name, about: `${mart.purpose} ${mart.grain}`, columns }
}

/** Only times must be known as such: comments say them in the same words. */
const typeOf = (name: string, about: string): string | null => {
  if (/_at$|^since$/.test(name)) return 'timestamptz'
  if (name === 'day') return 'date'
  return /^First day|first day\.$|^The (?:day|Monday)\b/.test(about) ? 'date' : null
}
