// The context that every page of the status page gets: the ledger, the definitions, a clock, and its actions.
import type { Clock } from '../core/clock.ts'
import type { HookReceiver } from '../core/hooks-setting.ts'
import type { PipelinePrice } from '../core/learned-price.ts'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { NightPlan } from './plan-cache.ts'

/** The name under which the ledger records actions from the page. */
export const actor = 'status page'

/** Waits for all promises at once; returns their values by name. */
export const awaitAll = async <Of extends Readonly<Record<string, Promise<unknown>>>>(of: Of) => {
  const entries = Object.entries(of).map(async ([name, value]) => [name, await value] as const)
  return Object.fromEntries(await Promise.all(entries)) as { readonly [Name in keyof Of]: Awaited<Of[Name]> }
}

/** What every page needs. Pages read through src/web/reads and write only through `actions`. */
export interface WebContext {
  readonly kysely: Db
  readonly definitions: readonly Definition[]
  readonly clock: Clock
  /** The warehouse's address without its password. */
  readonly warehouse: string
  /** Actions of the page that need more than a statement to the ledger. */
  readonly actions: {
    /** Stops the run within 5 s; resolves to its state afterwards. */
    cancel(runId: number): Promise<string>
    /** Begins a run that parses and loads the month again; false: such a run is in progress. null: this process reads no landings. */
    readonly replay: ((pipeline: string, month: string) => boolean) | null
  }
  /** Receives webhooks of services; null: this process receives none. */
  readonly hooks: HookReceiver | null
  /** The price of the pipeline's purchases, from the recorded bills. */
  priceOf(pipeline: string): Promise<PipelinePrice>
  /** Pipelines whose tick this process should have taken and did not; without a schedule there are none. */
  overdue(): Promise<readonly string[]>
  /** What the next run of all pipelines would do. Spends nothing, writes nothing; takes seconds. Throws EtlError. */
  plan(signal: AbortSignal): Promise<NightPlan>
  /** The next `count` ticks of each scheduled pipeline, milliseconds since the epoch. */
  nextTicks(count: number): readonly { readonly pipeline: string; readonly timeZone: string; readonly at: readonly number[] }[]
}
