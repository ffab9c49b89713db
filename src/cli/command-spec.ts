// What a command is: its words for `--help`, its options, and the file that does the work.
import type { Command } from 'commander'
import type { Output } from './output.ts'

/** What a command is started with. Options are commander's, by camel-case name. */
export interface Invocation {
  readonly args: readonly string[]
  readonly options: Readonly<Record<string, unknown>>
  readonly output: Output
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Folder the command was started in. */
  readonly folder: string
  /** Aborts at the first SIGINT, SIGTERM or SIGHUP. */
  readonly signal: AbortSignal
  /** Every command there is, for documents; and the command line that is made of them, for what completes it. */
  readonly commands: readonly CommandSpec[]
  readonly program: Command
}

/** Does the work and returns the exit code; expected failures are thrown as EtlError. */
export type Handler = (invocation: Invocation) => Promise<number>

export interface OptionSpec {
  readonly flags: string
  readonly description: string
  readonly fallback?: string | undefined
  /** What it may be; left out: anything. */
  readonly values?: readonly string[] | undefined
  /** What stands between the values where it is given again; left out: the last one counts. */
  readonly separator?: string | undefined
}

export interface CommandSpec {
  /** Name and arguments as commander reads them: `backfill <pipeline...>`; `<list|show>` is one of these words. */
  readonly usage: string
  readonly description: string
  /** Beside those that every command has. */
  readonly options?: readonly OptionSpec[]
  readonly examples: readonly string[]
  load(): Promise<Handler>
}

export const option = (flags: string, description: string, fallback?: string, values?: readonly string[]): OptionSpec => ({
  ...{ flags, description, fallback, values },
})

/** Where the servers of the command line listen unless told otherwise; their help says the same. */
export const [pagePort, mcpPort] = [7433, 7434]

export const sharedOptions: readonly OptionSpec[] = [
  { flags: '--json', description: 'print one JSON object a line, the last one a summary' },
  { flags: '--pipelines <folder>', description: 'folder of the pipeline definitions', fallback: 'pipelines' },
]
