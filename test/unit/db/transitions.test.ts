// The drawn state machines are those of the code.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { jobStates, reportStates } from '../../../src/core/types.ts'
import { jobTransitions, reportTransitions, type Transition } from '../../../src/ledger/transitions.ts'
import { drawingOf } from '../../support/state-drawing.ts'

const architecture = readFileSync(join(import.meta.dirname, '..', '..', '..', 'docs', 'architecture.md'), 'utf8')

const reached = (transitions: Readonly<Record<string, Transition<string>>>): string[] =>
  [...new Set(Object.values(transitions).flatMap(({ to }) => to))].sort()

describe.each([
  ['job', jobTransitions, 'plan', jobStates, ['done']],
  // What is bought again is bought by another job; only a person's word, an id, leads on from where a purchase has ended.
  ['report', reportTransitions, 'intend', reportStates, []],
] as const)("a %s's states", (_, transitions, begins, states, ends) => {
  test('are drawn in the architecture as the code has them', () => {
    expect(architecture).toContain(drawingOf(transitions, begins))
  })

  test('can all be reached', () => {
    expect(reached(transitions)).toEqual([...states].sort())
  })

  test('never change without a cause: every state but the last is left by a named event', () => {
    const left = new Set<string>(Object.values<Transition<string>>(transitions).flatMap(({ from }) => from))
    expect(states.filter((state) => !left.has(state)).sort()).toEqual([...ends].sort())
  })
})
