// `millrace mcp`: figures for assistants, over standard input and output or HTTP. Reads bi alone.
import type { Settings } from '../core/env.ts'
import { messageOf } from '../core/errors.ts'
import { createLog } from '../core/log.ts'
import { withPackages } from '../core/optional-package.ts'
import { type Secret, secret } from '../core/redact.ts'
import { loadSemantics } from '../definition/semantic-model.ts'
import { semanticFolders } from '../run/open-runtime.ts'
import type { McpContext } from '../semantic/mcp-server.ts'
import { openReader } from '../semantic/reader.ts'
import { createEndpoint, listen, webSettings } from '../web/web-server.ts'
import { interruptedCode, pipelinesFolder, settingsOf, untilInterrupted } from './command-runtime.ts'
import { type Handler, type Invocation, mcpPort } from './command-spec.ts'

const readerName = 'MILLRACE_READER_URL'
const path = '/mcp'

const loadProtocol = () => withPackages('Assistants', ['@modelcontextprotocol/server'], () => import('../semantic/mcp-server.ts'))

/** Standard output belongs to the protocol: everything else goes to standard error. */
export const mcp: Handler = async (invocation) => {
  const settings = settingsOf(invocation)
  const model = await loadSemantics(semanticFolders(pipelinesFolder(invocation)))
  const { databaseUrl, home } = settings
  const reader = await openReader({ readerUrl: readerUrlOf(settings), databaseUrl, home })
  const log = createLog(settings.raw['MILLRACE_LOG_LEVEL'])
  const context: McpContext = { reader, model, onError: (error) => log.warn({ error: messageOf(error) }, 'mcp') }
  try {
    if (invocation.options['http'] === true) return await overHttp(invocation, settings, context)
    invocation.output.note(`millrace mcp: reads ${reader.display}; speaks on standard input and output.`)
    const { serveOnStdio } = await loadProtocol()
    await serveOnStdio(context, invocation.signal)
    return 0
  } finally {
    await reader.close()
  }
}

const overHttp = async (invocation: Invocation, { raw }: Settings, context: McpContext): Promise<number> => {
  const { port } = invocation.options
  const { address, token } = webSettings({ ...raw, MILLRACE_WEB_PORT: String(port ?? mcpPort) }, mcpPort)
  const { createMcpEndpoint, mostRequestBytes } = await loadProtocol()
  const endpoint = createMcpEndpoint(context)
  const app = createEndpoint({ path, token, mostBytes: mostRequestBytes, nowMs: Date.now, handle: endpoint.handle })
  const server = await listen(app, address)
  try {
    invocation.output.event({ event: 'mcp', url: `${server.url}${path}` })
    invocation.output.line(
      `mcp: ${server.url}${path} (${token === null ? 'this machine alone' : 'Authorization: Bearer MILLRACE_WEB_TOKEN'})`,
    )
    await untilInterrupted(invocation)
    return interruptedCode
  } finally {
    await endpoint.close()
    await server.close()
  }
}

const readerUrlOf = ({ raw }: Settings): Secret | null => {
  const text = raw[readerName]
  if (!text) return null
  const password = URL.parse(text)?.password
  if (password) secret(`${readerName} password`, decodeURIComponent(password))
  return secret(readerName, text)
}
