// What other people's database clients read of bi, compared with PostgreSQL's own catalog: `node test/clients/run.ts URL` with the address of a reader's login.
// A client whose program is not on the machine is left out and said to be; `test/clients/prepare.sh` makes them ready: MILLRACE_CLIENTS_PYTHON (with
// sqlalchemy and psycopg), MILLRACE_CLIENTS_ODBC (a Python with pyodbc, on a system with odbc-postgresql), MILLRACE_CLIENTS_PGJDBC (the driver's jar; java on the path).
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import pg from 'pg'
import { z } from 'zod'

const relation = z.object({
  kind: z.string(),
  comment: z.string().nullable(),
  columns: z.array(z.object({ name: z.string(), type: z.string(), comment: z.string().nullable() })),
  primaryKey: z.array(z.string()),
  foreignKeys: z.array(z.string()),
})
const reading = z.object({
  client: z.string(),
  relations: z.record(z.string(), relation),
  /** Class and text of each value; null where the client gave its own NULL. */
  values: z.array(z.tuple([z.string(), z.string()]).nullable()),
})
export type Reading = z.infer<typeof reading>

/** One value of each type of `bi`, the last a NULL. */
export const rowQuery = `select date '2026-04-01' as date, 9007199254740993::bigint as bigint, 0.1234567890123456789::numeric as numeric,
  'straße'::text as text, true as boolean, timestamptz '2026-04-01T12:00:00Z' as timestamptz, array['news', 'video']::text[] as texts, null::numeric as nothing`
const wanted = ['2026-04-01', '9007199254740993', '0.1234567890123456789', 'straße', /^(true|1)$/i, /^2026-04-01/, /news.*video/]

export interface Program {
  readonly name: string
  /** What the client calls each type of `bi`. */
  readonly types: ReadonlyMap<string, string>
  /** psqlodbc 13 leaves REMARKS empty, whatever the catalog holds. */
  readonly passesComments: boolean
  readonly missing: string
  readonly command: readonly string[] | null
}

const here = import.meta.dirname
const python = process.env['MILLRACE_CLIENTS_PYTHON']
const odbc = process.env['MILLRACE_CLIENTS_ODBC']
const jar = process.env['MILLRACE_CLIENTS_PGJDBC']
const typeNames = ['date', 'bigint', 'numeric', 'text', 'boolean', 'timestamp with time zone', 'text[]', 'integer', 'jsonb']
/** @param spellings in the order of `typeNames` */
const types = (...spellings: readonly string[]): Program['types'] =>
  new Map(typeNames.map((name, at) => [name, spellings[at] ?? name]))

export const programs: readonly Program[] = [
  {
    name: 'SQLAlchemy',
    types: types('DATE', 'BIGINT', 'NUMERIC', 'TEXT', 'BOOLEAN', 'TIMESTAMP', 'ARRAY', 'INTEGER', 'JSONB'),
    passesComments: true,
    missing: 'MILLRACE_CLIENTS_PYTHON is not set',
    command: python ? [python, join(here, 'sqlalchemy_client.py')] : null,
  },
  {
    name: 'pgjdbc',
    types: types('date', 'int8', 'numeric', 'text', 'bool', 'timestamptz', '_text', 'int4'),
    passesComments: true,
    missing: 'MILLRACE_CLIENTS_PGJDBC is not set',
    command: jar ? ['java', '-cp', jar, join(here, 'JdbcClient.java')] : null,
  },
  {
    name: 'psqlodbc',
    types: types('date', 'int8', 'numeric', 'text', 'bool', 'timestamptz', '_text', 'int4'),
    passesComments: false,
    missing: 'MILLRACE_CLIENTS_ODBC is not set',
    command: odbc ? [odbc, join(here, 'odbc_client.py')] : null,
  },
]

/** PostgreSQL's own words on bi: what every client ought to have read. */
export const readCatalog = async (url: string): Promise<Reading['relations']> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string; relation: unknown }>(`
      select c.relname as name, jsonb_build_object(
        'kind', case c.relkind when 'v' then 'view' else 'table' end, 'comment', obj_description(c.oid, 'pg_class'),
        'columns', (select jsonb_agg(jsonb_build_object('name', attname, 'type', format_type(atttypid, atttypmod), 'comment', col_description(c.oid, attnum)) order by attnum)
          from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped),
        'primaryKey', coalesce((select jsonb_agg(a.attname order by k.at) from pg_constraint p cross join unnest(p.conkey) with ordinality k (attnum, at)
          join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum where p.conrelid = c.oid and p.contype = 'p'), '[]'),
        'foreignKeys', coalesce((select jsonb_agg(a.attname || ' -> bi.' || t.relname || '(' || b.attname || ')') from pg_constraint f
          join pg_class t on t.oid = f.confrelid join pg_attribute a on a.attrelid = f.conrelid and a.attnum = f.conkey[1]
          join pg_attribute b on b.attrelid = f.confrelid and b.attnum = f.confkey[1] where f.conrelid = c.oid and f.contype = 'f'), '[]')) as relation
      from pg_class c where c.relnamespace = 'bi'::regnamespace and c.relkind in ('r', 'v', 'p') order by 1`)
    return Object.fromEntries(rows.map(({ name, relation: one }) => [name, relation.parse(one)]))
  } finally {
    await client.end()
  }
}

/** @param query one row, whose values are told with the class the client gives them. */
export const read = ({ name, command }: Program, url: string, query = rowQuery): Reading => {
  const [program = '', ...rest] = command ?? []
  const { status, stdout, stderr } = spawnSync(program, [...rest, url, query], {
    encoding: 'utf8',
    timeout: 120_000,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  if (status !== 0) throw new Error(`${name} ended with ${status}: ${stderr}`)
  return reading.parse(JSON.parse(stdout))
}

export interface Findings {
  readonly client: string
  /** What a person reads in the table, by subject; every difference in words. */
  readonly told: Readonly<
    Record<
      'relations' | 'columns' | 'types' | 'primary keys' | 'foreign keys' | 'table comments' | 'column comments' | 'values',
      string
    >
  >
  readonly differences: readonly string[]
}

/** Everything the client read otherwise than the catalog has it. */
export const compare = (
  { client, relations, values }: Reading,
  catalog: Reading['relations'],
  types: Program['types'],
): Findings => {
  const differences: string[] = []
  const counts = {
    relations: 0,
    columns: 0,
    types: 0,
    'primary keys': 0,
    'foreign keys': 0,
    'table comments': 0,
    'column comments': 0,
  }
  const same = (subject: keyof typeof counts, where: string, got: unknown, expected: unknown): void => {
    if (JSON.stringify(got) === JSON.stringify(expected)) counts[subject] += 1
    else differences.push(`${subject} of ${where}: ${JSON.stringify(got)}, expected ${JSON.stringify(expected)}`)
  }
  const total = { ...counts }
  for (const [name, expected] of Object.entries(catalog)) {
    const got = relations[name]
    total.relations += 1
    total.columns += expected.columns.length
    total.types += expected.columns.length
    total['column comments'] += expected.columns.length
    total['table comments'] += 1
    same('relations', name, got?.kind, expected.kind)
    same('table comments', name, got?.comment, expected.comment)
    expected.columns.forEach((column, at) => {
      same('columns', `${name}.${column.name}`, got?.columns[at]?.name, column.name)
      same('types', `${name}.${column.name}`, got?.columns[at]?.type, types.get(column.type) ?? column.type)
      same('column comments', `${name}.${column.name}`, got?.columns[at]?.comment, column.comment)
    })
    if (expected.primaryKey.length > 0) {
      total['primary keys'] += 1
      same('primary keys', name, got?.primaryKey, expected.primaryKey)
    }
    if (expected.foreignKeys.length > 0) {
      total['foreign keys'] += 1
      same('foreign keys', name, [...(got?.foreignKeys ?? [])].sort(), [...expected.foreignKeys].sort())
    }
  }
  const wrong = wanted.filter((one, at) => {
    const text = values[at]?.[1] ?? 'NULL'
    return typeof one === 'string' ? text !== one : !one.test(text)
  })
  for (const one of wrong) differences.push(`values: ${String(one)} is not among ${JSON.stringify(values)}`)
  if (values.at(-1) !== null) differences.push(`values: NULL came as ${JSON.stringify(values.at(-1))}`)
  const told = Object.fromEntries(
    Object.entries(counts).map(([subject, count]) => [subject, `${count} of ${total[subject as keyof typeof total]}`]),
  )
  return {
    client,
    told: { ...(told as Record<keyof typeof counts, string>), values: values.map((one) => one?.[0] ?? 'NULL').join(', ') },
    differences,
  }
}

/** Those that are not the client's own way. */
export const countedOf = ({ passesComments }: Program, differences: readonly string[]): readonly string[] =>
  differences.filter((text) => passesComments || !/^(table|column) comments of /.test(text))

const main = async (url: string | undefined): Promise<number> => {
  if (url === undefined)
    throw new Error('give the address of a login that reads bi: node test/clients/run.ts postgres://reader:…@host:5432/warehouse')
  const catalog = await readCatalog(url)
  let failed = false
  const print = (...cells: readonly string[]): void => void process.stdout.write(`| ${cells.join(' | ')} |\n`)
  print(
    'client',
    'relations',
    'columns',
    'their types',
    'primary keys',
    'tables with foreign keys',
    'comments of relations',
    'of columns',
    'date, bigint, numeric, text, boolean, timestamptz, text[], NULL come as',
  )
  print(...Array.from({ length: 9 }, () => '---'))
  for (const program of programs) {
    if (program.command === null) {
      process.stderr.write(`${program.name} left out: ${program.missing}\n`)
      continue
    }
    const { client, told, differences } = compare(read(program, url), catalog, program.types)
    print(
      client,
      told.relations,
      told.columns,
      told.types,
      told['primary keys'],
      told['foreign keys'],
      told['table comments'],
      told['column comments'],
      told.values,
    )
    const counted = countedOf(program, differences)
    for (const text of counted) process.stderr.write(`${client}: ${text}\n`)
    failed ||= counted.length > 0
  }
  return failed ? 1 : 0
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href)
  process.exitCode = await main(process.argv[2])
