// The MCP tools for assistants: list, explain and query metrics; show what is loaded, fresh and restated. No tool writes or buys. They are reached over
// standard input and output, or over HTTP, where the caller of `createMcpEndpoint` checks access.
import { type CallToolResult, createMcpHandler, McpServer, type StandardSchemaWithJSON } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'
import { isEtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import { version } from '../core/shipped.ts'
import type { SemanticModel } from '../definition/semantic.ts'
import { answerQuery, answerView } from './answer.ts'
import { explainMetric, listMetrics } from './explain.ts'
import { QueryRefusedError, querySchema } from './query.ts'
import type { Reader } from './reader.ts'

export interface McpContext {
  readonly reader: Reader
  readonly model: SemanticModel
  /** Gets errors that the question did not cause. */
  readonly onError: (error: unknown) => void
}

const instructions = `Figures of a warehouse, by metric. Start with list_metrics, then query_metrics; explain_metric says what a figure means.
A query without a correct answer is refused, with a query to use instead: follow it, do not add figures up yourself.
Every answer has its SQL, the moment it refers to, whether it is final and which months are missing: say so when you report figures.
NULL means no data, never 0.`

const name = z.string().min(1).max(100)
const month = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'a month such as 2026-01')
const pipeline = name.optional().describe('Only this pipeline.')
const period = z.strictObject({ from: month, to: month }).optional().describe('First and last month, both included.')
const limit = z.int().min(1).max(1_000).default(100)

/** A server of one connection. */
export const createMcpServer = ({ reader, model, onError }: McpContext): McpServer => {
  const server = new McpServer({ name: 'millrace', version }, { instructions })
  const annotations = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false }
  const tool = <Input>(
    called: string,
    description: string,
    inputSchema: StandardSchemaWithJSON<unknown, Input>,
    work: (input: Input) => Promise<object>,
  ): void =>
    void server.registerTool(called, { description, inputSchema, annotations }, async (input) =>
      resultOf(() => work(input), onError),
    )
  tool(
    'list_metrics',
    'Every metric with its description, unit and dimensions, and what it does not add up over.',
    z.strictObject({
      subject: name.optional(),
      search: z.string().max(100).optional().describe('Words in name, description or synonyms.'),
    }),
    async (input) => ({ metrics: listMetrics(model, input) }),
  )
  tool(
    'explain_metric',
    'One metric: formula, unit, view, dimensions, and whether it adds up over each.',
    z.strictObject({ metric: name }),
    async ({ metric }) => explainMetric(model, metric),
  )
  tool(
    'query_metrics',
    'Figures of one subject by dimensions, with filters, a period, a comparison, or as they were known at a moment.',
    querySchema,
    (input) => answerQuery(reader, model, input),
  )
  tool(
    'coverage',
    'What is loaded of each pipeline, month by month, newest first.',
    z.strictObject({ pipeline, period, limit }),
    (input) => answerView(reader, model, { view: 'coverage_months', ...input }),
  )
  tool('freshness', 'How fresh each pipeline is.', z.strictObject({ pipeline }), (input) =>
    answerView(reader, model, { view: 'freshness', limit: 1_000, newestBy: 'last_loaded_at', ...input }),
  )
  tool(
    'restatements',
    'Loaded values that changed later, and why, newest first.',
    z.strictObject({ pipeline, period: period.describe('Months that changed.'), limit }),
    (input) => answerView(reader, model, { view: 'restatements', newestBy: 'seen_at', ...input }),
  )
  tool(
    'why_did_it_change',
    'Why figures of a month changed, newest first: restated, a slice came or went, not loaded, another version, requested differently.',
    z.strictObject({ pipeline, period: period.describe('Months whose figures changed.'), limit }),
    (input) => answerView(reader, model, { view: 'figure_changes', newestBy: 'changed_at', ...input }),
  )
  return server
}

/** The result as JSON text. A refusal says what to ask instead; any other error only says that the tool failed. */
const resultOf = async (work: () => Promise<object>, onError: (error: unknown) => void): Promise<CallToolResult> => {
  const as = (value: object, isError: boolean): CallToolResult => ({
    content: [{ type: 'text', text: redact(JSON.stringify(value)) }],
    ...(isError ? { isError } : {}),
  })
  try {
    return as(await work(), false)
  } catch (error) {
    if (error instanceof QueryRefusedError) return as({ refused: error.message, instead: error.instead }, true)
    onError(error)
    return as({ failed: isEtlError(error) ? error.message : `The warehouse could not be read: ${messageOf(error)}` }, true)
  }
}

/** Serves until the client closes the connection or the signal aborts. */
export const serveOnStdio = async (context: McpContext, signal: AbortSignal): Promise<void> => {
  const closed = new Promise<void>((resolve) => {
    process.stdin.once('end', () => resolve())
    process.stdin.once('close', () => resolve())
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
  const handle = serveStdio(() => createMcpServer(context), { onerror: context.onError })
  await closed
  await handle.close()
}

/** Largest question over HTTP. */
export const mostRequestBytes = 256 * 1024

/** Stateless: each request gets a new server. */
export const createMcpEndpoint = (context: McpContext) => {
  const handler = createMcpHandler(() => createMcpServer(context), {
    onerror: context.onError,
    maxRequestBodySize: mostRequestBytes,
  })
  return { handle: (request: Request) => handler.fetch(request), close: () => handler.close() }
}
