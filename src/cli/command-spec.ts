// The description of a command: texts for `--help`, options, and the file that does the work.
import type { Command } from 'commander'
import type { Output } from './output.ts'

/** The input of a command. Options come from commander, by camel-case name. */
export interface Invocation {
  /** As in a summary: `reports list`, `run`. */
  readonly name: string
  readonly args: readonly string[]
  readonly options: Readonly<Record<string, unknown>>
  readonly output: Output
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Folder the command was started in. */
  readonly folder: string
  /** Aborts at the first SIGINT, SIGTERM or SIGHUP. */
  readonly signal: AbortSignal
  /** All commands, for documents; and commander's program made from them, for completion. */
  readonly commands: readonly CommandSpec[]
  readonly program: Command
}

/** Does the work and returns the exit code; expected failures are thrown as EtlError. */
export type Handler = (invocation: Invocation) => Promise<number>

export interface OptionSpec {
  readonly flags: string
  readonly description: string
  readonly fallback?: string | undefined
  /** Allowed values. Default: any. */
  readonly values?: readonly string[] | undefined
  /** Joins the values of a repeated option. Default: the last value counts. */
  readonly separator?: string | undefined
}

export interface CommandSpec {
  /** Name and arguments as commander reads them: `backfill <pipeline...>`; `<list|show>` is one of these words. */
  readonly usage: string
  readonly description: string
  /** Options beside those of every command. */
  readonly options?: readonly OptionSpec[]
  readonly examples: readonly string[]
  load(): Promise<Handler>
}

export const option = (flags: string, description: string, fallback?: string, values?: readonly string[]): OptionSpec => ({
  ...{ flags, description, fallback, values },
})

/** Default ports of the page and of MCP over HTTP; the help texts say the same. */
export const [pagePort, mcpPort] = [7433, 7434]

export const sharedOptions: readonly OptionSpec[] = [
  { flags: '--json', description: 'print one JSON object a line, the last one a summary' },
  { flags: '--pipelines <folder>', description: 'folder of the pipeline definitions', fallback: 'pipelines' },
]
