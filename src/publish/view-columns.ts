// Describes the views of bi and their columns from the definitions and the marts' headers: for catalog comments, and for documents made without a database.
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { columnComment, dimensionWords, freshnessComments, grainOf, lineageComments } from './comments.ts'
import { historyColumns, viewColumns } from './views.ts'

/** A table or view of bi in words. */
export interface DescribedView {
  readonly name: string
  readonly kind: 'table' | 'view'
  readonly of: 'facts' | 'history' | 'mart' | 'dimension' | 'freshness'
  readonly about: string
  readonly columns: readonly DescribedColumn[]
}

/** A described column; `type`: a type of PostgreSQL; null: not known. */
interface DescribedColumn {
  readonly name: string
  readonly type: string | null
  readonly isNullable: boolean
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

/** Columns by their names: the definition's own, and those that every table or view has. */
export const describedColumns = ({ columns }: Pick<Definition, 'columns'>, names: readonly string[]): DescribedColumn[] =>
  names.map((name) => {
    const own = columns.find((column) => column.name === name)
    return own === undefined
      ? { name, type: lineageTypes[name] ?? null, isNullable: true, about: lineageComments[name] ?? '' }
      : { name, type: own.type, isNullable: own.nullable, about: columnComment(own) }
  })

/** Facts with their histories, marts, dimensions and freshness; a mart's columns are those its header explains, its key, and those its grain names. */
export const describedViews = (definitions: readonly Definition[], marts: readonly Mart[]): readonly DescribedView[] => {
  const published = definitions.filter(({ publish }) => publish)
  const facts = published.map((definition): DescribedView => {
    const about = `${definition.description} ${grainOf(definition)}`
    const columns = describedColumns(definition, viewColumns(definition))
    return { name: definition.pipeline, kind: 'view', of: 'facts', about, columns }
  })
  const histories = published.map((definition): DescribedView => {
    const about = `Every revision of bi.${definition.pipeline}, ended ones included.`
    const columns = describedColumns(definition, historyColumns(definition))
    return { name: `${definition.pipeline}_history`, kind: 'view', of: 'history', about, columns }
  })
  const others = dimensionWords(published).map(
    ({ name, about, columns }): DescribedView => ({ name, kind: 'table', of: 'dimension', about, columns: said(columns) }),
  )
  const freshness: DescribedView = {
    name: 'freshness',
    kind: 'view',
    of: 'freshness',
    about: 'How fresh each pipeline is. One row per pipeline and version.',
    columns: said(freshnessComments),
  }
  const known = new Map([...facts.flatMap(({ columns }) => columns)].map((column) => [column.name, column]))
  // A shipped mart never takes a description from a user's mart, which may mean something else by the name.
  const explainedBy = (isShipped: boolean) =>
    new Set(marts.flatMap((mart) => (mart.isShipped === isShipped ? [...mart.columns.keys()] : [])))
  const [own, shipped] = [explainedBy(false), explainedBy(true)]
  const keys = new Map([...known].filter(([name]) => published.some(({ key }) => key.includes(name))))
  const views = marts.map((mart) => (mart.isShipped ? martView(mart, keys, shipped) : martView(mart, known, own.union(shipped))))
  return [...facts, ...histories, ...views, ...others, freshness].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Columns that a mart's header describes but its query does not return: the line, and a message that ends with the columns it returns. */
export const wrongNames = ({ key, columns: own }: Mart, described: DescribedView | undefined, given: readonly string[]) =>
  (described?.columns ?? [])
    .filter(({ name }) => !given.includes(name))
    .map(({ name }) => {
      const gives = `It returns ${given.join(', ')}. Correct the header or the query`
      if (own.has(name))
        return { line: `column\\s+${name}`, words: `the header describes '${name}', which the query does not return. ${gives}` }
      if (key.includes(name)) return { line: 'key', words: `'${name}' of the key is not a column of the query. ${gives}` }
      return {
        line: 'grain',
        words: `the grain names '${name}', which the query does not return; write other words after a colon. ${gives}`,
      }
    })

const said = (columns: Readonly<Record<string, string>>): DescribedColumn[] =>
  Object.entries(columns).map(([name, about]) => ({ name, type: typeOf(name, about), isNullable: true, about }))

const martView = (mart: Mart, known: ReadonlyMap<string, DescribedColumn>, explained: ReadonlySet<string>): DescribedView => {
  const inGrain = (mart.grain.split(/[.:;]| in which/)[0] ?? '').match(/\b[a-z_][a-z0-9_]*\b/g) ?? []
  const names = [...mart.key, ...inGrain.filter((name) => known.has(name) || explained.has(name)), ...mart.columns.keys()]
  const columns = [...new Set(names)].flatMap((name): DescribedColumn[] => {
    const about = mart.columns.get(name)
    return about !== undefined ? said({ [name]: about }) : [known.get(name) ?? { name, type: null, isNullable: true, about: '' }]
  })
  const kind = mart.summaryOf === null ? 'view' : 'table'
  return { name: mart.name, kind, of: 'mart', about: `${mart.purpose} ${mart.grain}`, columns }
}

/** Guesses types of dates and times, the only ones that matter, from names and from the standard wording of descriptions. */
const typeOf = (name: string, about: string): string | null => {
  if (/_at$|^since$/.test(name)) return 'timestamptz'
  if (name === 'day') return 'date'
  return /^First day|first day\.$|^The (?:day|Monday)\b/.test(about) ? 'date' : null
}
