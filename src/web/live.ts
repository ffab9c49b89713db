// Server-sent events: one question to the ledger a second for all who follow, sent on only when something changed.

import type { Context } from 'hono'
import { streamSSE } from 'hono/streaming'
import { sql } from 'kysely'
import type { WebContext } from './context.ts'
import type { Texts } from '../db/typed-row.ts'
import { recounts } from './reads/window-totals.ts'

const lookEveryMs = 1_000
const keepAliveMs = 15_000
/** Jobs counted at most each time; a larger run shows by its requests and loads. */
const mostCounted = 10_000

/** Text that differs whenever anything the pages show has changed. */
export const ledgerMark = async ({ kysely }: WebContext): Promise<string> => {
  const { rows } = await sql<Texts<'mark'>>`
    select concat_ws('/', (select max(load_id) from etl.loads), (select max(event_id) from etl.events),
      (select max(run_id) from etl.runs), (select max(request_id) from etl.requests),
      (select string_agg(r.run_id || ':' || (select count(*) from (select from etl.run_jobs w
          where w.run_id = r.run_id and w.outcome is null limit ${mostCounted}) open), ',' order by r.run_id)
        from etl.runs r where r.state = 'running'),
      (select string_agg(j.job_id || ':' || j.fence, ',' order by j.job_id) from etl.jobs j where j.holder is not null),
      (select count(*) from (select from etl.jobs j where j.state in ('held', 'failed') limit ${mostCounted}) trouble)) as mark`.execute(
    kysely,
  )
  return `${rows[0]?.mark ?? ''}/${recounts(kysely)}`
}

/** Server-sent events: browsers hear when the ledger has changed and fetch the page again. */
export interface Live {
  respond(context: Context): Response
  close(): void
}

/** Looks only while somebody follows. */
export const createLive = (web: WebContext, onError: (error: unknown) => void): Live => {
  const followers = new Set<() => void>()
  let last: string | null = null
  let timer: NodeJS.Timeout | null = null
  const look = async (): Promise<void> => {
    try {
      const mark = await ledgerMark(web)
      if (last !== null && mark !== last) for (const tell of followers) tell()
      last = mark
    } catch (error) {
      onError(error)
    }
    timer = followers.size > 0 ? setTimeout(() => void look(), lookEveryMs) : null
  }
  return {
    respond: (context) =>
      streamSSE(context, async (stream) => {
        let wake: () => void = () => undefined
        let changed = false
        const tell = (): void => {
          changed = true
          wake()
        }
        followers.add(tell)
        stream.onAbort(tell)
        if (timer === null) {
          last = null
          timer = setTimeout(() => void look(), 0)
        }
        try {
          while (!stream.aborted && !stream.closed) {
            await new Promise<void>((resolve) => {
              const keepAlive = setTimeout(resolve, keepAliveMs)
              wake = () => {
                clearTimeout(keepAlive)
                resolve()
              }
              if (changed) wake()
            })
            await stream.writeSSE(changed ? { event: 'change', data: '' } : { event: 'alive', data: '' })
            changed = false
          }
        } finally {
          followers.delete(tell)
        }
      }),
    close: () => {
      if (timer !== null) clearTimeout(timer)
      timer = null
      for (const tell of followers) tell()
      followers.clear()
    },
  }
}
