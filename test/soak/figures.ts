// What a soak watches while it lasts (memory, files, connections, dead rows), and whether it stays flat.
import { readdirSync, readFileSync } from 'node:fs'
import type { DatabasePool } from '../../src/db/connect.ts'

export interface Sample {
  readonly seconds: number
  /** Largest resident memory of the long-running processes, in megabytes. */
  readonly megabytes: number
  /** Most open files of any of them. */
  readonly files: number
  /** Sessions of the database; null while it was away. */
  readonly connections: number | null
  /** Of etl and data, counted: what the server itself keeps of them is lost with each kill. null while the database was away. */
  readonly deadRows: number | null
}

const resident = (pid: number): number => {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  } catch {
    return 0
  }
}

const openFiles = (pid: number): number => {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    return 0
  }
}

export const takeSample = async (pool: DatabasePool, pids: readonly number[], seconds: number): Promise<Sample> => {
  const asked = await pool
    .query<{ connections: number; dead: number }>(
      `select (select count(*)::integer from pg_stat_activity where datname = current_database()) as connections,
         (select coalesce(sum((public.pgstattuple(c.oid)).dead_tuple_count), 0)::float8 from pg_class c
          where c.relkind = 'r' and c.relnamespace in ('etl'::regnamespace, 'data'::regnamespace)) as dead`,
    )
    .catch(() => null)
  return {
    seconds,
    megabytes: Math.max(0, ...pids.map(resident)),
    files: Math.max(0, ...pids.map(openFiles)),
    connections: asked?.rows[0]?.connections ?? null,
    deadRows: asked?.rows[0]?.dead ?? null,
  }
}

export interface Course {
  readonly early: number
  readonly late: number
  readonly peak: number
}

/** Medians of the second quarter, when everything is warm, and of the last. */
export const courseOf = (values: readonly (number | null)[]): Course => {
  const known = values.filter((value) => value !== null)
  const quarter = Math.floor(known.length / 4)
  const median = (part: readonly number[]): number => part.toSorted((a, b) => a - b)[Math.floor(part.length / 2)] ?? 0
  return {
    early: median(known.slice(quarter, quarter * 2)),
    late: median(known.slice(-Math.max(1, quarter))),
    peak: Math.max(0, ...known),
  }
}

/** A quarter more, and a little that means nothing where there is little. */
export const isFlat = ({ early, late }: Course, slack: number): boolean => late <= early * 1.25 + slack
