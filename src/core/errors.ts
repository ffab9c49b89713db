// The one table of error codes. docs/operations.md mirrors it (a test compares them).

/** `now`: try again soon, costs an attempt. `later`: not yet, costs none. `never`: cannot succeed without a change. */
export type Retry = 'now' | 'later' | 'never'

/** @param state what the unit becomes: failed, held (waits for a person) or waiting */
const code = (retry: Retry, state: 'failed' | 'held' | 'waiting', meaning: string) => ({ retry, state, meaning }) as const

export const errorCodes = {
  USAGE: code('never', 'failed', 'The command line is not understood.'),
  CONFIGURATION: code('never', 'failed', 'A setting is missing or not valid.'),
  DEFINITION: code('never', 'failed', 'A pipeline definition is not valid.'),
  NO_DEFINITION: code(
    'later',
    'waiting',
    'No YAML file here has the definition that this was requested with; the unit waits for it.',
  ),
  SCHEMA_BEHIND: code('never', 'failed', 'The warehouse lacks migrations this program needs.'),
  SCHEMA_AHEAD: code('never', 'failed', 'The warehouse was migrated by a newer program.'),
  TABLE_DRIFT: code(
    'never',
    'failed',
    'A table in the database differs from its definition, has a constraint or trigger that refuses a row, or has rows with ids that this warehouse never issued.',
  ),
  DATABASE_UNREACHABLE: code('now', 'failed', 'The database does not answer.'),
  DATABASE_READ_ONLY: code('never', 'failed', 'The database does not accept writes.'),
  DATABASE: code('now', 'failed', 'The database refused a statement.'),
  DISK: code('never', 'failed', 'The disk refused a write (full, or no permission).'),
  SERVICE_UNREACHABLE: code('now', 'failed', 'The service does not answer.'),
  SERVICE_ERROR: code('now', 'failed', 'The service answered with a server error.'),
  SERVICE_TIMEOUT: code('now', 'failed', 'The service answered too slowly.'),
  RATE_LIMITED: code('later', 'waiting', 'The service asks for fewer requests.'),
  KEY_REFUSED: code('never', 'failed', 'The service does not accept the key.'),
  QUOTA_EXHAUSTED: code(
    'later',
    'held',
    'The quota at the service is used up. (Your own budgets make units wait; a unit that costs more than a whole budget is held.)',
  ),
  NEEDS_APPROVAL: code('never', 'held', 'The purchase would cost more than usual; `millrace approve` approves it.'),
  NO_CAPABILITY: code('never', 'failed', 'The key has no access to this value, date or dataset.'),
  NOT_PUBLISHED: code('later', 'waiting', 'The service has not published this month (or day) yet.'),
  BAD_REQUEST: code('never', 'failed', 'The service rejects the request.'),
  BAD_RESPONSE: code('now', 'failed', 'The answer does not have the form that the API documents.'),
  TRUNCATED: code('now', 'failed', 'The body ended before it was complete.'),
  TOO_LARGE: code('never', 'failed', 'The answer is larger than a limit of Millrace allows.'),
  TOO_MANY_PAGES: code('never', 'failed', 'The first page announces more pages than `limits.max_pages` allows.'),
  WRONG_ECHO: code('never', 'failed', 'The answer is for another request than the one sent.'),
  UNSTABLE: code('never', 'held', 'The answer kept changing while it was read.'),
  INCOMPLETE: code('never', 'held', 'The answer does not have the rows, data points or checksum that the service announces.'),
  UNUSABLE: code('never', 'held', 'An answer that was paid for cannot be used. Millrace does not buy it again automatically.'),
  SHRUNK: code('never', 'held', 'The new answer has far fewer rows than the loaded one.'),
  CAPPED: code('never', 'held', 'The answer has exactly the requested limit of rows; rows may be missing.'),
  SCHEMA: code('never', 'held', 'A field that earlier loads had is missing from every record of the answer.'),
  TEST_FAILED: code('never', 'held', 'The new answer fails a test with `on_failure: hold`.'),
  TOO_MANY_REJECTS: code('never', 'failed', 'More rows were rejected than the definition allows.'),
  REPORT_PENDING: code('later', 'waiting', 'The service has not finished the report yet.'),
  REPORT_FAILED: code('never', 'failed', 'The service could not make the report.'),
  REPORT_REJECTED: code('never', 'failed', 'The service rejected the report request.'),
  REPORT_UNCERTAIN: code('never', 'held', 'A submission was sent and its answer was lost.'),
  REPORT_EXPIRED: code('never', 'held', 'The finished report can no longer be downloaded.'),
  LANDING_MISSING: code('now', 'failed', 'The stored answer (landing) is missing from its folder or bucket.'),
  LANDING_UNREACHABLE: code('now', 'failed', 'The bucket of the landings does not answer.'),
  LANDING_REFUSED: code('never', 'failed', 'The bucket of the landings refuses the request.'),
  LANDING_CORRUPT: code('never', 'failed', 'The landed bytes do not match their checksum.'),
  LANDING_FOREIGN: code('never', 'failed', 'The landed bytes are not those this warehouse has on record.'),
  WAREHOUSE_COPY: code(
    'later',
    'held',
    'This database may be a copy of a warehouse that is in use elsewhere. Nothing is bought until you run `millrace migrate --as …`.',
  ),
  LIST_QUERY: code('never', 'failed', 'A list that a definition reads from the database cannot be read.'),
  SUPERSET: code('never', 'failed', 'Superset does not answer or refuses a request.'),
  FENCED: code('never', 'failed', 'Another process has taken the unit over.'),
  CANCELLED: code('never', 'failed', 'The run was cancelled.'),
  INTERRUPTED: code('later', 'waiting', 'The process was asked to stop.'),
  INTERNAL: code('never', 'failed', 'A defect in Millrace.'),
} as const

export type ErrorCode = keyof typeof errorCodes

/** Why the service may accept a part of a refused request: the part is smaller, or lacks the dates or the values that were refused. */
export type SplitReason = 'size' | 'dates' | 'values'

/** What happens to a job after an error, where the code alone does not decide it. `src/run/settle.ts` reads it. */
export type Follows =
  /** A new job sends the same request: after an approval or, where the service certainly did not take the former one, from `notBefore` on. */
  | { readonly next: 'ask again' }
  /** The answer is loaded only into windows before that day; later windows are not requested yet. */
  | { readonly next: 'load up to'; readonly day: string }
  /** The bytes are downloaded once more, for free. */
  | { readonly next: 'fetch again' }
  /** The answer is kept as it is until a person has judged it. */
  | { readonly next: 'keep the answer' }
  /**
   * The service certainly refused the whole: smaller jobs find out which part it accepts. A job that cannot be split waits `elseInMs`, or follows its code.
   * `by`: the dimension whose values are published each at its own time. Default: all values of a window are published together.
   */
  | { readonly next: 'split'; readonly about: SplitReason; readonly by?: string; readonly elseInMs?: number }
  /** Every part of the request would be refused, too: the code decides. */
  | { readonly next: 'as its code says' }
  /** The job is tried again after so long. `isFinal`: by a later run, this run does not wait. */
  | { readonly next: 'retry'; readonly inMs: number; readonly isFinal: boolean }
  /** Not yet: costs the job no attempt. */
  | { readonly next: 'wait'; readonly isFinal: boolean }
  /** `place` answers no job: costs this job no attempt. */
  | { readonly next: 'wait for the service'; readonly place: string; readonly isFinal: boolean }
  /** The service refuses this job and answers others: costs an attempt. `leftMs`: until the job's deadline for retries. */
  | { readonly next: 'count the try'; readonly leftMs: number }

export interface ErrorDetails {
  readonly cause?: unknown
  /** Facts for logs and people; never secrets, and nothing is decided by them. */
  readonly context?: Readonly<Record<string, unknown>>
  /** Default: what the code says. */
  readonly follows?: Follows
  /** False: the service certainly did not take the request. Default: not known. */
  readonly sent?: boolean
  /** HTTP status of the answer behind it. */
  readonly status?: number
  /** What the network said, such as ECONNREFUSED. */
  readonly network?: string
  /** What is wrong with an answer, in the same words for every unit, so that equal faults group. Default: the message. */
  readonly fault?: string
  /** Milliseconds since the epoch; an earlier retry is useless. */
  readonly notBefore?: number
}

/** Every expected failure. The message says what, where, and ends with what to do. */
export class EtlError extends Error {
  override readonly name = 'EtlError'
  readonly code: ErrorCode
  readonly context: Readonly<Record<string, unknown>>
  readonly notBefore: number | null
  readonly follows: Follows | null
  readonly sent: boolean | null
  readonly status: number | null
  readonly network: string | null
  readonly fault: string | null

  constructor(errorCode: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = errorCode
    this.context = details.context ?? {}
    this.notBefore = details.notBefore ?? null
    this.follows = details.follows ?? null
    this.sent = details.sent ?? null
    this.status = details.status ?? null
    this.network = details.network ?? null
    this.fault = details.fault ?? null
  }

  /** The same error with another message or more details. */
  with(message: string, more: ErrorDetails = {}): EtlError {
    const { context, notBefore, follows, sent, status, network, fault } = this
    const known = { context, notBefore, follows, sent, status, network, fault }
    const said = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== null))
    return new EtlError(this.code, message, { cause: this, ...said, ...more })
  }

  get retry(): Retry {
    return errorCodes[this.code].retry
  }
}

/** The command line asks for something that cannot be done. */
export const usageError = (message: string, cause?: unknown): EtlError => new EtlError('USAGE', message, { cause })

/** The place (file and line) of each setting that comes from a file, by name. A process reads one such file. */
const places = new Map<string, string>()

/** From now on `settingError` puts the place in front of a setting's name. */
export const setSettingPlaces = (found: Iterable<readonly [name: string, place: string]>): void => {
  places.clear()
  for (const [name, place] of found) places.set(name, place)
}

/** A setting is missing or wrong. @param message each line begins with the setting's name */
export const settingError = (message: string, cause?: unknown): EtlError =>
  new EtlError(
    'CONFIGURATION',
    message.replaceAll(/^\w+/gm, (name) => (places.has(name) ? `${places.get(name)}: ${name}` : name)),
    { cause },
  )

export const isEtlError = (error: unknown): error is EtlError => error instanceof EtlError

/** Codes of a service that does not answer or limits the rate: a job that still waits with one of these at the end of a run is not done. */
export const unansweredCodes = [
  'RATE_LIMITED',
  'SERVICE_UNREACHABLE',
  'SERVICE_ERROR',
  'SERVICE_TIMEOUT',
  'BAD_RESPONSE',
  'TRUNCATED',
] as const satisfies readonly ErrorCode[]

export const isUnanswered = ({ code }: EtlError): boolean => unansweredCodes.some((one) => one === code)

/** Text of anything thrown, for messages that wrap it. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))
