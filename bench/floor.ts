// The floor: the same bytes from the same service by COPY into an unlogged staging table, then the best single statement;
// no partitions, lineage, checks, landing or ledger, in a process that is warm already.
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { copyInto, type DatabaseClient } from '../src/db/connect.ts'
import { addWindows } from '../src/core/window.ts'
import { metrics } from './bodies.ts'
import { keywordColumns } from './project.ts'

export interface Floor {
  reset(): Promise<void>
  /** COPY straight into a table with nothing in it, the key afterwards. */
  intoEmpty(url: string): Promise<void>
  /** COPY straight into a table that is made with a partition for each month, with the key and the index that ours has. */
  intoMonths(url: string, months: readonly string[]): Promise<void>
  upsert(url: string): Promise<void>
  difference(url: string): Promise<void>
  restate(url: string): Promise<void>
}

const columns = `domain text, country text, "date" date, ${metrics.map((name) => `${name} numeric`).join(', ')}`
const key = 'domain, country, "date"'
const list = `${key}, ${metrics.join(', ')}`
const joined = 's.domain = t.domain and s.country = t.country and s."date" = t."date"'
const differs = `(${metrics.map((name) => `s.${name}`).join()}) is distinct from (${metrics.map((name) => `t.${name}`).join()})`
const assigned = metrics.map((name) => `${name} = s.${name}`).join()

const bodyOf = async (url: string): Promise<Readable> => {
  const answer = await fetch(url)
  if (answer.body === null) throw new Error(`${url} has no body`)
  return Readable.fromWeb(answer.body)
}

export const createFloor = (client: DatabaseClient): Floor => {
  const copy = async (table: string, url: string): Promise<void> =>
    pipeline(await bodyOf(url), copyInto(client, `copy ${table} from stdin with (format csv, header)`))
  const stage = async (url: string): Promise<void> => {
    await client.query('truncate public.floor_staging')
    await copy('public.floor_staging', url)
  }
  return {
    reset: async () => {
      await client.query('drop table if exists public.floor_staging, public.floor_target, public.floor_history')
      await client.query(`create unlogged table public.floor_staging (${columns})`)
      await client.query(`create table public.floor_target (${columns})`)
      await client.query(`create table public.floor_history (${columns}, valid_to timestamptz)`)
    },
    intoEmpty: async (url) => {
      await copy('public.floor_target', url)
      await client.query(`alter table public.floor_target add primary key (${key})`)
    },
    intoMonths: async (url, months) => {
      await client.query('drop table if exists public.floor_months')
      await client.query(
        `create table public.floor_months (${columns}, unit_id bigint default 0, primary key (${key})) partition by range ("date")`,
      )
      await client.query('create index on public.floor_months using brin (unit_id)')
      for (const month of months)
        await client.query(`create table public.floor_months_${month.replace('-', '')} partition of public.floor_months
          for values from ('${month}-01') to ('${addWindows(`${month}-01`, 'month', 1)}')`)
      await copy(`public.floor_months (${list})`, url)
    },
    upsert: async (url) => {
      await stage(url)
      await client.query(`insert into public.floor_target as t select ${list} from public.floor_staging on conflict (${key}) do update
        set ${metrics.map((name) => `${name} = excluded.${name}`).join()}`)
    },
    difference: async (url) => {
      await stage(url)
      await client.query('set work_mem = 262144')
      await client.query(`select count(*) from public.floor_staging s full join
        (select * from public.floor_target where domain not like 'other-%') t on ${joined} where ${differs}`)
      await client.query('reset work_mem')
    },
    restate: async (url) => {
      await stage(url)
      await client.query('set work_mem = 262144')
      await client.query(`with changed as materialized (select s.* from public.floor_staging s join public.floor_target t on ${joined} where ${differs}),
        kept as (insert into public.floor_history select t.*, now() from public.floor_target t join changed s on ${joined})
        update public.floor_target t set ${assigned} from changed s where ${joined}`)
      await client.query('reset work_mem')
    },
  }
}

/** Eight at once. */
export const fetchAll = async (address: (page: number) => string, pages: number): Promise<string[]> => {
  const bodies: string[] = []
  let next = 0
  const walk = async (): Promise<void> => {
    while (next < pages) {
      const page = next++
      bodies[page] = await (await fetch(address(page))).text()
    }
  }
  await Promise.all(Array.from({ length: 8 }, walk))
  return bodies
}

const staged = { keyword: 'text', top_url: 'text', ...keywordColumns } as const
const keywordKey = 'month, domain, country, keyword, top_url'

/**
 * Pages fetched eight at once, read as JSON, written by COPY and put into a table of the same columns and key as ours; returns seconds.
 */
export const keywordFloor = async (client: DatabaseClient, address: (page: number) => string, pages: number): Promise<number> => {
  const fields = Object.keys(staged)
  const typed = Object.entries(staged)
    .map(([name, type]) => `${name} ${type}`)
    .join(', ')
  await client.query('drop table if exists public.floor_words_staging, public.floor_words')
  await client.query(`create unlogged table public.floor_words_staging (${typed})`)
  await client.query(
    `create table public.floor_words (month date, domain text, country text, ${typed}, primary key (${keywordKey}))`,
  )
  const started = performance.now()
  const bodies = await fetchAll(address, pages)
  await pipeline(Readable.from(copyTexts(bodies, fields)), copyInto(client, 'copy public.floor_words_staging from stdin'))
  await client.query(`insert into public.floor_words as t select date '2026-01-01', 'domain-00000.example.com', 'us', s.* from public.floor_words_staging s
    on conflict (${keywordKey}) do update set ${Object.keys(keywordColumns)
      .map((name) => `${name} = excluded.${name}`)
      .join()}`)
  return (performance.now() - started) / 1000
}

function* copyTexts(bodies: readonly string[], fields: readonly string[]): Generator<Buffer> {
  for (const body of bodies) {
    const page: { keywords: Record<string, unknown>[] } = JSON.parse(body)
    yield Buffer.from(page.keywords.map((record) => `${fields.map((field) => cellOf(record[field])).join('\t')}\n`).join(''))
  }
}

const cellOf = (value: unknown): unknown =>
  Array.isArray(value) ? `{${value.map((one) => `"${one}"`).join()}}` : (value ?? '\\N')
