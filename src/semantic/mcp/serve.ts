// Where assistants connect: standard input and output, or requests over HTTP that somebody else has let in.
import { createMcpHandler } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { createMcpServer, type McpContext } from './mcp-server.ts'

/** Speaks until the other end closes or the signal aborts. */
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

/** One request, one answer: nothing is remembered between them. */
export const createMcpEndpoint = (
  context: McpContext,
): { handle(request: Request): Promise<Response>; close(): Promise<void> } => {
  const handler = createMcpHandler(() => createMcpServer(context), {
    onerror: context.onError,
    maxRequestBodySize: mostRequestBytes,
  })
  return { handle: (request) => handler.fetch(request), close: () => handler.close() }
}
