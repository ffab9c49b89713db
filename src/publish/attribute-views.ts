// The parts of bi that people fill in: attributes (with validity periods, so that queries can use the groups of an earlier time), names in dimension tables, and
// the first month of the fiscal year.
import { sql } from 'kysely'
import type { AttributeRows } from '../core/attribute-types.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { lockByName } from '../db/named-lock.ts'
import type { Db } from '../db/tables.ts'
import { type Counts, type Numbers, query, type Texts } from '../db/typed-row.ts'

/** How many values the change affected. */
export type AppliedAttributes = Numbers<'changed' | 'ended'>

/** Idempotent. A changed value gets a new row, a value that left the file ends, other values keep their rows. A subject without a file has no attributes. */
export const applyAttributes = async (
  trx: Db,
  sets: readonly AttributeRows[],
  definitions: readonly Definition[],
): Promise<AppliedAttributes> => {
  await lockByName(trx, 'attributes')
  const all = sets.flatMap(({ file, subject, rows }) => rows.map((row) => ({ file, subject, ...row })))
  const wanted = sql`jsonb_to_recordset(${JSON.stringify(all)}::jsonb) as w (subject text, value text, attributes jsonb, file text)`
  // One time for all rows, so that a value's old and new attributes leave no gap; read under the lock, so that it is later than the time of the former change.
  const [clock] = await query<Texts<'moment'>>(trx)`select clock_timestamp()::text as moment`
  const moment = sql`${clock?.moment}::timestamptz`
  const [ended] = await query<Counts<'gone'>>(trx)`
    with ended as (
      update bi.attribute_versions v set valid_to = ${moment} where valid_to is null
        and not exists (select from ${wanted} where w.subject = v.subject and w.value = v.value and w.attributes = v.attributes)
      returning v.subject, v.value
    )
    select count(*) filter (where w.value is null) as gone
    from ended e left join ${wanted} on w.subject = e.subject and w.value = e.value`
  const made = await query<Texts<'value'>>(trx)`
    insert into bi.attribute_versions (subject, value, attributes, valid_from, file)
    select w.subject, w.value, w.attributes, ${moment}, w.file from ${wanted}
    where not exists (select from bi.attribute_versions v where v.subject = w.subject and v.value = w.value and v.valid_to is null)
    order by 1, 2 returning value`
  await fillDimensions(trx, definitions)
  return { changed: made.length, ended: Number(ended?.gone ?? 0) }
}

/** Fills the columns of dimension tables that people maintain: columns without a text from the source that the table does not compute. */
const fillDimensions = async (trx: Db, definitions: readonly Definition[]): Promise<void> => {
  const tables = new Map(definitions.flatMap(({ dimensionTables }) => dimensionTables.map((table) => [table.name, table])))
  for (const { name, column, columns = {} } of [...tables.values()].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const open = Object.keys(columns).filter((one) => columns[one]?.textOf === undefined)
    const rows = await query<Texts<'name'>>(trx)`select attname as name from pg_attribute
      where attrelid = to_regclass(${`bi.${name}`}) and attname = any(${open}::text[]) and attgenerated = ''`
    for (const { name: attribute } of rows) await fillColumn(trx, name, column, attribute)
  }
}

/** Writes the file's texts; clears a text that the file no longer has. A text that never came from a file belongs to a person and stays. */
const fillColumn = async (trx: Db, table: string, key: string, attribute: string): Promise<void> => {
  const dimension = sql.table(`bi.${table}`)
  const [value, text] = [sql`${sql.ref(`d.${key}`)}::text`, sql.ref(`d.${attribute}`)]
  await sql`update ${dimension} d set ${sql.ref(attribute)} = v.attributes ->> ${attribute}
    from bi.attribute_versions v where v.subject = ${key} and v.valid_to is null and v.value = ${value}
      and v.attributes ? ${attribute} and ${text} is distinct from v.attributes ->> ${attribute}`.execute(trx)
  await sql`update ${dimension} d set ${sql.ref(attribute)} = null where ${text} is not null
    and not exists (select from bi.attribute_versions v where v.subject = ${key} and v.valid_to is null and v.value = ${value} and v.attributes ? ${attribute})
    and ${text} = (select v.attributes ->> ${attribute} from bi.attribute_versions v where v.subject = ${key} and v.value = ${value}
      and v.attributes ? ${attribute} order by v.valid_from desc limit 1)`.execute(trx)
}

/**
 * Idempotent; writes only the days that differ. A fiscal year has the number of the calendar year in which it ends.
 * @param firstMonth of the fiscal year, 1 to 12
 * @returns how many days changed
 */
export const setFiscalYear = ({ kysely }: Pick<Database, 'kysely'>, firstMonth: number): Promise<number> =>
  kysely.transaction().execute(async (trx) => {
    await lockByName(trx, 'publish')
    const shifted = sql`(d.month_start + make_interval(months => ${(13 - firstMonth) % 12}::integer))`
    const { numAffectedRows } = await sql`
      update bi.dim_date d set fiscal_year = f.year, fiscal_quarter = f.quarter, fiscal_month = f.month, fiscal_year_name = 'FY' || f.year,
        fiscal_quarter_name = 'FY' || f.year || ' Q' || f.quarter
      from (select d.date, extract(year from ${shifted})::integer as year, extract(quarter from ${shifted})::integer as quarter,
        extract(month from ${shifted})::integer as month from (select date, month_start from bi.dim_date) d) f
      where f.date = d.date and (d.fiscal_year, d.fiscal_month) is distinct from (f.year, f.month)`.execute(trx)
    return Number(numAffectedRows ?? 0n)
  })
