// `npm run check`, before each commit: lint, types and unit tests beside each other. Each says what it has to say in one piece, when it has ended.
import { spawn } from 'node:child_process'

const steps = [
  ['npm', 'run', '--silent', 'lint'],
  ['npm', 'run', '--silent', 'types'],
  ['vitest', 'run', '--project', 'unit', '--reporter=dot', '--reporter=./test/support/count-reporter.ts'],
]

const run = ([command = '', ...args]: readonly string[]): Promise<boolean> =>
  new Promise((resolve) => {
    const began = performance.now()
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const said: Buffer[] = []
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => said.push(chunk))
    child.once('error', (error) => said.push(Buffer.from(`${error.message}\n`)))
    child.once('close', (code) => {
      const seconds = ((performance.now() - began) / 1000).toFixed(1)
      const outcome = code === 0 ? 'passed' : 'FAILED'
      process.stdout.write(`${Buffer.concat(said).toString()}== ${args[2]}: ${outcome}, ${seconds} s\n`)
      resolve(code === 0)
    })
  })

const passed = await Promise.all(steps.map(run))
process.exitCode = passed.every(Boolean) ? 0 : 1
