// `millrace sandbox`: the service itself on this machine, until Ctrl-C.
import { runSandbox, sandboxOptionsFrom } from '../sandbox/cli.ts'
import type { Handler } from './command-spec.ts'

/** Ends with the process. */
export const handle: Handler = async ({ options, output, signal }) => {
  const sandbox = await runSandbox(sandboxOptionsFrom(options), (text) => output.line(text))
  output.event({ event: 'listening', url: sandbox.url, api_key: sandbox.apiKey })
  if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  await sandbox.close()
  output.event({ event: 'summary', command: 'sandbox' })
  return 0
}
