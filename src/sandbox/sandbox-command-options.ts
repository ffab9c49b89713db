// The `sandbox` command: starts it and says how to use it.
import type { SandboxOptions } from './sandbox-options.ts'
import { type Sandbox, startSandbox } from './sandbox-server.ts'

export { sandboxFlags, sandboxOptionsFrom } from './sandbox-options.ts'

/** Starts the sandbox and says how to use it. */
export const runSandbox = async (options: SandboxOptions, print: (text: string) => void): Promise<Sandbox> => {
  const sandbox = await startSandbox(options)
  print(`The service, with synthetic data, at ${sandbox.url} (this machine only). Key: ${sandbox.apiKey}`)
  if (sandbox.downloadUrl !== sandbox.url) print(`Downloads at ${sandbox.downloadUrl}`)
  print('')
  print('Try:')
  print(`  curl '${sandbox.url}/v4/website-analysis/keywords?api_key=${sandbox.apiKey}&URL=example.com&country=us&limit=3'`)
  print(`  WEB_ANALYTICS_BASE_URL=${sandbox.url} WEB_ANALYTICS_API_KEY=${sandbox.apiKey} npx millrace check`)
  print(`  curl ${sandbox.url}/_sandbox/books            what was asked and bought`)
  print(`  curl -X PUT -d '[{"kind":"status-500","nth":3}]' ${sandbox.url}/_sandbox/faults`)
  print('Options and faults: docs/sandbox-reference.md. Ctrl-C ends it.')
  return sandbox
}
