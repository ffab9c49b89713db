// A person's word before money is spent: asked for at a terminal, given by --yes, and held back everywhere else.
import { userInfo } from 'node:os'
import { createInterface } from 'node:readline/promises'
import { previewRun } from '../plan/dry-run.ts'
import type { Scope } from '../plan/frames.ts'
import { costsCredits, sourceOf } from '../plan/plan-context.ts'
import type { OpenRuntime } from '../run/open-runtime.ts'
import type { Invocation } from './command-spec.ts'
import { closingLines } from './print-plan.ts'

/** Who types, for the record. */
export const personWith = (what: string): string => {
  try {
    return `${userInfo().username}, ${what}`
  } catch {
    // A container may have no name for its user.
    return what
  }
}

/** A runtime that may buy what was agreed to; null: the person wants nothing of it. */
export const agreed = async (
  invocation: Invocation,
  runtime: OpenRuntime,
  command: 'run' | 'backfill',
  scope: Scope,
): Promise<OpenRuntime | null> => {
  const { options, output, signal } = invocation
  const approvedBy = (what: string): OpenRuntime => ({
    ...runtime,
    consent: { ...runtime.consent, approvedBy: personWith(what) },
  })
  if (options['yes'] === true) return approvedBy(`${command} --yes`)
  const guarded = runtime.definitions.filter((one) => one.guard !== null && costsCredits(sourceOf(runtime, one)))
  if (guarded.length === 0 || output.json || !process.stdin.isTTY || !process.stderr.isTTY) return runtime
  const preview = await previewRun(runtime, guarded, scope, signal)
  const asks =
    preview.jobs.some(({ held }) => held) || preview.pipelines.some(({ waiting, isDear }) => waiting.units > 0 || isDear)
  if (!asks) return runtime
  for (const line of closingLines(preview)) output.note(line)
  const question = scope.mode === 'range' ? 'Buy it? [y/N] ' : 'Buy what needs approval, too? [y/N] '
  if (await isYes(question, signal)) return approvedBy(`${command} at the terminal`)
  return scope.mode === 'range' ? null : runtime
}

const isYes = async (question: string, signal: AbortSignal): Promise<boolean> => {
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  try {
    return /^\s*(y|yes)\s*$/i.test(await lines.question(question, { signal }))
  } finally {
    lines.close()
  }
}
