// Prints what kept tests from running and how to get it, and the closing line a continuous-integration log is read for: `N passed, N failed`.
import { relative } from 'node:path'
import type { Reporter, TestModule, Vitest } from 'vitest/node'
import { type Skipped, wantedLines } from './wants.ts'

/** A line that `.ci/run` repeats at its end, since the middle of a long log is seldom kept. */
const failure = (what: string, message: string): string => `FAILED ${what}: ${message.split('\n')[0]?.slice(0, 300)}`

export default class CountReporter implements Reporter {
  private chosen = false

  onInit({ config }: Vitest): void {
    // Who names tests leaves out all others.
    this.chosen = config.testNamePattern !== undefined
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    let passed = 0
    let failed = 0
    const skipped: Skipped[] = []
    const flaky: string[] = []
    const named: string[] = []
    for (const module of modules) {
      const file = relative(process.cwd(), module.moduleId)
      // A file that cannot be read, or whose set-up fails, counts as one.
      for (const { message } of module.errors()) named.push(failure(file, message))
      if (module.state() === 'failed' && [...module.children.allTests()].length === 0) failed += 1
      for (const test of module.children.allTests()) {
        const { state, errors } = test.result()
        if (test.diagnostic()?.flaky)
          flaky.push(`  ${file}: ${test.fullName}: ${(errors ?? [])[0]?.message.split('\n')[0]?.slice(0, 300) ?? ''}`)
        if (state === 'passed') passed += 1
        else if (state === 'failed') failed += 1
        else skipped.push({ file, name: test.fullName })
        if (state === 'failed') named.push(failure(`${file}: ${test.fullName}`, errors.at(-1)?.message ?? ''))
      }
    }
    if (skipped.length > 0 && !this.chosen) process.stdout.write(`\nNot run here:\n${wantedLines(skipped).join('\n')}\n`)
    if (flaky.length > 0)
      process.stdout.write(`\nPassed at a further try only, so something in them is a race:\n${flaky.join('\n')}\n`)
    if (named.length > 0) process.stdout.write(`\n${named.join('\n')}\n`)
    process.stdout.write(`\n${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}\n`)
  }
}
