// `millrace sandbox`: the service itself on this machine, until Ctrl-C.
import { runSandbox, sandboxOptionsFrom } from '../sandbox/sandbox-command-options.ts'
import { parseJson } from '../sandbox/sandbox-options.ts'
import { readVendorOptions } from '../sandbox/vendor/vendor-options.ts'
import { startVendorSandbox } from '../sandbox/vendor/vendor-server.ts'
import type { Handler } from './command-spec.ts'

/** Ends with the process. */
export const sandbox: Handler = async ({ options, output, signal }) => {
  const own = sandboxOptionsFrom(options)
  const sandbox =
    options['like'] === 'vendor'
      ? await startVendor(own.port, options['vendor'], output)
      : await runSandbox(own, (text) => output.line(text))
  output.event({ event: 'listening', url: sandbox.url, api_key: sandbox.apiKey })
  if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  await sandbox.close()
  output.event({ event: 'summary', command: 'sandbox' })
  return 0
}

const startVendor = async (port: number | undefined, text: unknown, output: Pick<Parameters<Handler>[0]['output'], 'line'>) => {
  const options = readVendorOptions(text === undefined ? {} : parseJson(String(text), '--vendor'))
  const sandbox = await startVendorSandbox({ ...options, port: port ?? 8080 })
  output.line(`The service as its documentation has it, at ${sandbox.url} (this machine only). Key: ${sandbox.apiKey}`)
  output.line(`Charges and reports: ${sandbox.url}/_vendor/books. Options: docs/sandbox-reference.md. Ctrl-C ends it.`)
  return sandbox
}
