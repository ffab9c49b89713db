// What waits at the gate of a service, what a request finds out about a place, and what a trouble is called.
import { type ErrorCode, type EtlError, isEtlError } from '../core/errors.ts'

/** Places are kept apart: the account as a whole (nobody answers, or 429), and each path that answers with server errors. */
export const wholeAccount = 'the account'

/** How long a run waits for a place that is in trouble: from the first of its requests that met it, until the place is well again. */
export interface Patience {
  /** Tries in vain after which waiting ends, whoever's request tried. */
  readonly attempts: number
  readonly deadlineMs: number
}

/** A place that is in trouble, for people who watch. */
export interface Trouble {
  readonly place: string
  readonly code: ErrorCode
  /** What the service says or does. */
  readonly message: string
  readonly sinceMs: number
  /** When it is tried again. */
  readonly nextMs: number
}

/** What a request found out about a place. */
export interface Finding {
  readonly place: string
  readonly error: EtlError
  /** How long the service asks to wait; null: it does not say. */
  readonly askedMs: number | null
  /** So many in a row make a trouble. */
  readonly enough: number
  /** Tries in vain do not end the waiting: what is waited for takes its time. */
  readonly isLasting: boolean
}

/** A request between its pass and its verdict. */
export interface Pass {
  /** To be called once: what is wrong; null: the service answered as it should. */
  end(finding: Finding | null): void
  /** Nobody knows: the request was stopped. */
  drop(): void
}

/** A request that wants to pass. */
export interface Waiter {
  readonly places: readonly string[]
  readonly signal: AbortSignal
  readonly patience: Patience
  /** What it asks after, which alone may be in trouble: the one that tried in vain lets others try before it does so again. Default: what all ask. */
  readonly what?: string | undefined
  /** Whose patience it is: a later run waits anew. */
  readonly run: string | symbol
  /** Longer pauses are not waited for here: what it throws then says when to come back. */
  readonly longestPauseMs: number
}

/** Every request of an account passes it. */
export interface Gate {
  /**
   * Resolves when the request may be tried. Throws the place's trouble again, with `notBefore`; what follows is final where the patience is
   * spent.
   */
  pass(waiter: Waiter): Promise<Pass>
  isShut(place: string): boolean
}

/** Thrown because that place is in trouble, before anything was sent. */
export const isAwayAt = (error: unknown, place: string): boolean =>
  isEtlError(error) && error.follows?.next === 'wait for the service' && error.follows.place === place
