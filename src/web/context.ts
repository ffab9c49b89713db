// What every page of the status page is made from: the ledger, the definitions, a clock, and what it may do.
import type { Clock } from '../core/clock.ts'
import type { HookReceiver } from '../core/hooks-setting.ts'
import type { PipelinePrice } from '../core/learned-price.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { NightPlan } from './foresight.ts'

/** By whom the ledger says that something was done from the page. */
export const actor = 'status page'

/** Every value by its name, all of them waited for at once. */
export const allOf = async <Of extends Readonly<Record<string, Promise<unknown>>>>(of: Of) => {
  const entries = Object.entries(of).map(async ([name, value]) => [name, await value] as const)
  return Object.fromEntries(await Promise.all(entries)) as { readonly [Name in keyof Of]: Awaited<Of[Name]> }
}

/** What every page needs. Pages read through src/web/reads and change things through the actions alone. */
export interface WebContext {
  readonly kysely: Db
  readonly definitions: readonly Definition[]
  readonly clock: Clock
  /** The warehouse's address without its password. */
  readonly warehouse: string
  /** What a person may do from the page beside what the ledger does alone. */
  readonly actions: {
    /** The run stops within 5 s; the state it has afterwards. */
    cancel(runId: number): Promise<string>
    /** Begins a run of this process that parses and loads the month again; false: one is at work. null: this process reads no landings. */
    readonly replay: ((pipeline: string, month: string) => boolean) | null
  }
  /** Receives what services send; null: nothing is received here. */
  readonly hooks: HookReceiver | null
  /** What purchases of the pipeline of that name cost, by the bills on record. */
  priceOf(pipeline: string): Promise<PipelinePrice>
  /** Pipelines whose tick this process should have taken and did not; without a schedule there are none. */
  overdue(): Promise<readonly string[]>
  /** What the next run of all pipelines would do. Spends nothing, writes nothing; takes seconds. Throws EtlError. */
  plan(signal: AbortSignal): Promise<NightPlan>
  /** The next `count` ticks of each scheduled pipeline, milliseconds since the epoch. */
  nextTicks(count: number): readonly { readonly pipeline: string; readonly timeZone: string; readonly at: readonly number[] }[]
}
