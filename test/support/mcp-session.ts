// A session of the protocol's own client with the real command: over a child process, or over HTTP.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { z } from 'zod'
import { cleanEnvironment, launcher } from './command.ts'

const toolResult = z.object({
  isError: z.boolean().optional(),
  content: z.array(z.object({ type: z.literal('text'), text: z.string() })),
})

/** What a tool said. */
export interface ToolAnswer {
  readonly isError: boolean
  readonly text: string
  /** Its JSON; null where it is none. */
  readonly value: Readonly<Record<string, unknown>> | null
  readonly ms: number
}

export interface McpSession {
  readonly client: Client
  /** Errors of the protocol come as answers, too. */
  call(tool: string, input: Record<string, unknown>): Promise<ToolAnswer>
  close(): Promise<void>
}

const sessionOf = (client: Client): McpSession => ({
  client,
  call: async (tool, input) => {
    const begun = performance.now()
    const told = await client
      .callTool({ name: tool, arguments: input })
      .then((result) => toolResult.parse(result))
      .catch((error: unknown) => ({ isError: true, content: [{ text: String(error) }] }))
    const text = told.content.map((part) => part.text).join('\n')
    return { isError: told.isError === true, text, value: objectOf(text), ms: performance.now() - begun }
  },
  close: () => client.close(),
})

const objectOf = (text: string): Record<string, unknown> | null => {
  try {
    const value = z.record(z.string(), z.unknown()).safeParse(JSON.parse(text))
    return value.success ? value.data : null
  } catch {
    return null
  }
}

const newClient = (): Client => new Client({ name: 'millrace-test', version: '0.0.0' })

/** Starts `millrace mcp` and speaks over its standard input and output. */
export const openStdio = async (environment: Readonly<Record<string, string>>, folder: string): Promise<McpSession> => {
  const env = Object.fromEntries(
    Object.entries(cleanEnvironment(environment)).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [launcher(), 'mcp'],
    cwd: folder,
    env,
    stderr: 'ignore',
  })
  const client = newClient()
  await client.connect(transport)
  return sessionOf(client)
}

/** Speaks to one that listens already. */
export const openHttp = async (url: string, token: string): Promise<McpSession> => {
  const client = newClient()
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } }),
  )
  return sessionOf(client)
}
