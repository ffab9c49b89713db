// `millrace sandbox`: the service itself on this machine, until Ctrl-C.
import { docPage } from '../core/shipped.ts'
import { jsonOptions, sandboxOptionsFrom } from '../sandbox/sandbox-options.ts'
import { type Sandbox, startSandbox, usageOf } from '../sandbox/sandbox-server.ts'
import { startVendorSandbox } from '../sandbox/vendor/vendor-server.ts'
import type { Handler } from './command-spec.ts'

export const sandbox: Handler = async ({ options, output, signal }) => {
  const line = (text: string): void => output.line(text)
  const sandbox = options['like'] === 'vendor' ? await startVendor(options, line) : await startOwn(options, line)
  output.event({ event: 'listening', url: sandbox.url, api_key: sandbox.apiKey })
  if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  await sandbox.close()
  output.summary('sandbox', {})
  return 0
}

type Options = Readonly<Record<string, unknown>>

const startOwn = async (options: Options, line: (text: string) => void): Promise<Sandbox> => {
  const sandbox = await startSandbox(sandboxOptionsFrom(options))
  for (const text of usageOf(sandbox)) line(text)
  return sandbox
}

const startVendor = async ({ port = 8080, options }: Options, line: (text: string) => void) => {
  const sandbox = await startVendorSandbox({ ...jsonOptions(options), port: Number(port) })
  line(`The service as its documentation has it, at ${sandbox.url} (this machine only). Key: ${sandbox.apiKey}`)
  line(`Charges and reports: ${sandbox.url}/_vendor/books. Options: ${docPage('sandbox-reference.md')}. Ctrl-C ends it.`)
  return sandbox
}
