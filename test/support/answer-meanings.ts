// What an answer of the service can mean for its unit, and what follows from each: state, words, whether it passes, whether it is asked for again.

/** What follows for the one unit. */
export interface Consequence {
  /** Its state once the answer has come for good. */
  readonly state: RegExp
  readonly code: RegExp
  /** The sentence that is shown, with its next step. */
  readonly says: RegExp
  /** Sent once, and asked again by the same command or the next: the unit is loaded. */
  readonly passes: boolean
  /** The night after asks the endpoint again: a refusal costs nothing (A11), an answer does. */
  readonly asksAgain: boolean
}

const noCode = /^$/
export const consequences = {
  'no data': { state: /^loaded$/, code: noCode, says: /^$/, passes: true, asksAgain: false },
  'not published': { state: /^waiting$/, code: /^NOT_PUBLISHED$/, says: /publish/, passes: true, asksAgain: true },
  'before history': {
    state: /^failed$/,
    code: /^NO_CAPABILITY$/,
    says: /older than what this key may request/,
    passes: false,
    asksAgain: true,
  },
  'plan lacks': { state: /^failed$/, code: /^NO_CAPABILITY$/, says: /plan does not have this/, passes: false, asksAgain: true },
  'key refused': { state: /^(failed|waiting|held)$/, code: /^KEY_REFUSED$/, says: /key|KEY/, passes: true, asksAgain: true },
  // One text for two causes, of which the free question tells neither (61).
  'key or credits': {
    state: /^(failed|held|waiting)$/,
    code: /^(KEY_REFUSED|QUOTA_EXHAUSTED|NO_CAPABILITY)$/,
    says: /key|credits|plan/,
    passes: true,
    asksAgain: true,
  },
  'pending cap': { state: /^waiting$/, code: /^RATE_LIMITED$/, says: /report/, passes: true, asksAgain: true },
  'rate limit': { state: /^waiting$/, code: /^RATE_LIMITED$/, says: /fewer|rate|429/, passes: true, asksAgain: true },
  'bad request': {
    state: /^failed$/,
    code: /^BAD_REQUEST$|^REPORT_REJECTED$/,
    says: /definition|request/i,
    passes: false,
    asksAgain: true,
  },
  outage: {
    state: /^(failed|waiting)$/,
    code: /^(SERVICE_ERROR|SERVICE_UNREACHABLE|SERVICE_TIMEOUT|BAD_RESPONSE|TRUNCATED|RATE_LIMITED)$/,
    says: /run|again|service/i,
    passes: true,
    asksAgain: true,
  },
  /** A submission that may have been taken: never sent again by itself. */
  uncertain: { state: /^held$/, code: /^REPORT_UNCERTAIN$/, says: /adopt|resubmit/, passes: false, asksAgain: false },
  /** An answer that may have been paid for and cannot be used: it is not bought again by itself. */
  unusable: { state: /^held$/, code: /^UNUSABLE$/, says: /not (paid|bought|asked)|--force/, passes: false, asksAgain: false },
  /** A report that cannot be made, or whose request is refused after it was taken: never bought again by itself. */
  'report failed': { state: /^(failed|held)$/, code: /^REPORT_FAILED$/, says: /--force|again/, passes: false, asksAgain: false },
  'report refused': { state: /^failed$/, code: /^REPORT_REJECTED$/, says: /--force|definition/, passes: false, asksAgain: false },
  /** A paid report that is not done, or not to be had, now: it stays open, and is never bought again. */
  'stays open': {
    state: /^(waiting|held|failed|landed)$/,
    code: /^(REPORT_PENDING|REPORT_EXPIRED|RATE_LIMITED|SERVICE_\w+|BAD_RESPONSE|KEY_REFUSED|TRUNCATED|INCOMPLETE)$/,
    says: /./,
    passes: true,
    asksAgain: false,
  },
  fine: { state: /^loaded$/, code: noCode, says: /^$/, passes: true, asksAgain: false },
} as const satisfies Readonly<Record<string, Consequence>>
export type Meaning = keyof typeof consequences
