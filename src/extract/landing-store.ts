// What a place for landings promises, whatever it is made of: nothing is a landing before it is whole, and what is read is what was written.
import type { LandingName } from './landing-files.ts'
import type { Landing } from './landing-reader.ts'
import type { LandingWriter } from './landing-writer.ts'

/** A small text beside the landings. */
export interface Note {
  /** Words divided by `/`, below the store's place. */
  readonly path: string
  /** When it was written, by the store's own clock; milliseconds since the epoch. */
  writtenMs(): Promise<number>
}

/** Receipts and claims: small texts that are never overwritten, in the same place as the landings. */
export interface LandingNotes {
  /** Durable once it returns. False where the path exists: that note is left as it is. */
  write(path: string, text: string, signal?: AbortSignal): Promise<boolean>
  /** Null where there is none. */
  read(path: string, signal?: AbortSignal): Promise<string | null>
  /** Nothing happens where there is none. */
  remove(path: string): Promise<void>
  /** Those below `folder` whose path comes after `after`, in the order of their paths: what lies before is not read. */
  list(folder: string, after?: string, signal?: AbortSignal): AsyncIterable<Note>
}

/** Signals end the wait for a remote store, with the signal's reason. */
export interface LandingStore {
  /** What a person calls it: a folder or `s3://bucket/prefix/`. */
  readonly place: string
  /** Throws DISK, LANDING_UNREACHABLE or LANDING_REFUSED where nothing could be landed; asked before anything is bought. */
  ready(signal?: AbortSignal): Promise<void>
  /** Throws DISK, or LANDING_… after an answer was not taken, while the next page may find no room; called before each page that is paid for. */
  room(): Promise<void>
  create(name: LandingName, signal?: AbortSignal): Promise<LandingWriter>
  /** Throws LANDING_MISSING where it is not whole, LANDING_CORRUPT where the manifest cannot be read. */
  open(locator: string, signal?: AbortSignal): Promise<Landing>
  /** Nothing happens where there is none. */
  remove(locator: string): Promise<void>
  /** Every landing, whole or left behind, last written before `olderThanMs` (since the epoch), by locator. */
  older(olderThanMs: number): AsyncIterable<string>
  /** Every landing below a folder of locators (see `pipelineFolder` and `boxFolder`), whole or left behind, by locator. */
  below(folder: string): AsyncIterable<string>
  readonly notes: LandingNotes
  /** Drops what dead writers began before `olderThanMs` and `older` does not list. */
  dropUnfinished(olderThanMs: number): Promise<void>
}
