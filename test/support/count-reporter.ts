// Prints what kept tests from running and how to get it, and the closing line a continuous-integration log is read for: `N passed, N failed`.
import { relative } from 'node:path'
import type { Reporter, TestModule, Vitest } from 'vitest/node'
import { type Skipped, wantedLines } from './wants.ts'

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
    for (const module of modules) {
      if (module.state() === 'failed' && [...module.children.allTests()].length === 0) failed += 1
      for (const test of module.children.allTests()) {
        const state = test.result().state
        if (test.diagnostic()?.flaky) flaky.push(`  ${relative(process.cwd(), module.moduleId)}: ${test.fullName}`)
        if (state === 'passed') passed += 1
        else if (state === 'failed') failed += 1
        else skipped.push({ file: relative(process.cwd(), module.moduleId), name: test.fullName })
      }
    }
    if (skipped.length > 0 && !this.chosen) process.stdout.write(`\nNot run here:\n${wantedLines(skipped).join('\n')}\n`)
    if (flaky.length > 0)
      process.stdout.write(`\nPassed at the second try only, so something in them is a race:\n${flaky.join('\n')}\n`)
    process.stdout.write(`\n${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}\n`)
  }
}
