#!/usr/bin/env node
// For containers: asks the status page beside `schedule` or `worker` how it is; 0 healthy, 1 not. With --live a database that is away is no
// reason for 1: the process waits for it, and a new one could do no more.
const port = process.env.MILLRACE_WEB_PORT || '7433'
try {
  const answer = await fetch(`http://127.0.0.1:${port}/${process.argv.includes('--live') ? 'livez' : 'healthz'}`, {
    signal: AbortSignal.timeout(4_000),
  })
  const text = await answer.text()
  process.stdout.write(`${text}\n`)
  process.exit(answer.ok ? 0 : 1)
} catch (error) {
  process.stdout.write(`no answer on port ${port}: ${error instanceof Error ? error.message : error}\n`)
  process.exit(1)
}
