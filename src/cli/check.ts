// `millrace check`: prints every finding; 2 when there is an error, 0 otherwise.
import { createLog } from '../core/log.ts'
import { check } from '../check/check.ts'
import type { Handler } from './command-spec.ts'
import { pipelinesFolder, settingsOf } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const { output, options } = invocation
  const { findings, checked } = await check({
    settings: () => settingsOf(invocation),
    pipelinesFolder: pipelinesFolder(invocation),
    pipelines: [],
    offline: options['offline'] === true,
    log: createLog(invocation.environment['MILLRACE_LOG_LEVEL']),
    signal: invocation.signal,
  })
  const errors = findings.filter((finding) => finding.level === 'error').length
  for (const finding of findings) {
    output.event({ event: 'finding', ...finding })
    output.line(`${finding.level} (${finding.area}): ${finding.message}`)
  }
  output.event({ event: 'summary', command: 'check', errors, warnings: findings.length - errors, checked })
  output.line(
    findings.length === 0 ? `All well: ${checked.join(', ')}.` : `${errors} errors, ${findings.length - errors} warnings.`,
  )
  return errors > 0 ? 2 : 0
}
