// The drawn state machines are those of the code.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { reportStates, unitStates } from '../../../src/core/types.ts'
import { reportTransitions, type Transition, unitTransitions } from '../../../src/ledger/transitions.ts'
import { drawingOf } from '../../support/state-drawing.ts'

const architecture = readFileSync(join(import.meta.dirname, '..', '..', '..', 'docs', 'architecture.md'), 'utf8')

const reached = (transitions: Readonly<Record<string, Transition<string>>>): string[] =>
  [...new Set(Object.values(transitions).flatMap(({ to }) => to))].sort()

describe.each([
  ['unit', unitTransitions, 'plan', unitStates],
  ['report', reportTransitions, 'intend', reportStates],
] as const)("a %s's states", (_, transitions, begins, states) => {
  test('are drawn in the architecture as the code has them', () => {
    expect(architecture).toContain(drawingOf(transitions, begins))
  })

  test('can all be reached', () => {
    expect(reached(transitions)).toEqual([...states].sort())
  })

  test('never change without a cause: every state a claim does not hold is left by a named event', () => {
    const left = new Set<string>(Object.values<Transition<string>>(transitions).flatMap(({ from }) => from))
    expect(states.filter((state) => !left.has(state))).toEqual([])
  })
})
