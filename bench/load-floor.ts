// The floor of loading: the same bytes by COPY, then the best single statement, without partitions, lineage, checks or a ledger.
import { once } from 'node:events'
import { copyInto, type DatabaseClient } from '../src/db/connect.ts'
import type { RowsChunk } from '../src/load/copy-rows.ts'
import { metrics } from './load-data.ts'

type Chunks = readonly RowsChunk[]

export interface Floor {
  reset(): Promise<void>
  /** COPY straight into a table with nothing in it, the key afterwards. */
  intoEmpty(chunks: Chunks): Promise<void>
  /** Puts the rows there are out of the way of the next ones, so that the table is filled and keyed. */
  moveAside(): Promise<void>
  upsert(chunks: Chunks): Promise<void>
  difference(chunks: Chunks): Promise<void>
  restate(chunks: Chunks): Promise<void>
}

const columns = `"date" date, domain text, site text, ${metrics.map((name) => `${name} numeric`).join(', ')}`
const key = '"date", domain, site'
const list = `${key}, ${metrics.join(', ')}`
const joined = 's."date" = t."date" and s.domain = t.domain and s.site = t.site'
const differs = `(${metrics.map((name) => `s.${name}`).join()}) is distinct from (${metrics.map((name) => `t.${name}`).join()})`
const assigned = metrics.map((name) => `${name} = s.${name}`).join()

export const createFloor = (client: DatabaseClient): Floor => {
  const copy = async (table: string, chunks: Chunks): Promise<void> => {
    const stream = copyInto(client, `copy ${table} from stdin`)
    for (const chunk of chunks) if (!stream.write(chunk.copy)) await once(stream, 'drain')
    stream.end()
    await once(stream, 'finish')
  }
  const stage = async (chunks: Chunks): Promise<void> => {
    await client.query('truncate public.floor_staging')
    await copy('public.floor_staging', chunks)
  }
  return {
    reset: async () => {
      await client.query('drop table if exists public.floor_staging, public.floor_target, public.floor_history')
      await client.query(`create unlogged table public.floor_staging (${columns})`)
      await client.query(`create table public.floor_target (${columns})`)
      await client.query(`create table public.floor_history (${columns}, valid_to timestamptz)`)
    },
    intoEmpty: async (chunks) => {
      await copy('public.floor_target', chunks)
      await client.query(`alter table public.floor_target add primary key (${key})`)
    },
    moveAside: async () => {
      await client.query(`update public.floor_target set domain = 'other-' || domain`)
      await client.query('vacuum full analyze public.floor_target')
    },
    upsert: async (chunks) => {
      await stage(chunks)
      await client.query(`insert into public.floor_target as t select ${list} from public.floor_staging on conflict (${key}) do update
        set ${metrics.map((name) => `${name} = excluded.${name}`).join()}`)
    },
    difference: async (chunks) => {
      await stage(chunks)
      await client.query('set work_mem = 262144')
      await client.query(`select count(*) from public.floor_staging s full join
        (select * from public.floor_target where domain not like 'other-%') t on ${joined} where ${differs}`)
      await client.query('reset work_mem')
    },
    restate: async (chunks) => {
      await stage(chunks)
      await client.query('set work_mem = 262144')
      await client.query(`with changed as materialized (select s.* from public.floor_staging s join public.floor_target t on ${joined} where ${differs}),
        kept as (insert into public.floor_history select t.*, now() from public.floor_target t join changed s on ${joined})
        update public.floor_target t set ${assigned} from changed s where ${joined}`)
      await client.query('reset work_mem')
    },
  }
}
