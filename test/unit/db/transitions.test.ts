// No state of a job or a purchase is out of reach, and none is left without a cause.
import { describe, expect, test } from 'vitest'
import { jobStates, reportStates } from '../../../src/core/types.ts'
import { jobTransitions, reportTransitions, type Transition } from '../../../src/ledger/transitions.ts'

const reached = (transitions: Readonly<Record<string, Transition<string>>>): string[] =>
  [...new Set(Object.values(transitions).flatMap(({ to }) => to))].sort()

describe.each([
  ['job', jobTransitions, jobStates, ['done']],
  // What is bought again is bought by another job; only a person's word, an id, leads on from where a purchase has ended.
  ['report', reportTransitions, reportStates, []],
] as const)("a %s's states", (_, transitions, states, ends) => {
  test('can all be reached', () => {
    expect(reached(transitions)).toEqual([...states].sort())
  })

  test('never change without a cause: every state but the last is left by a named event', () => {
    const left = new Set<string>(Object.values<Transition<string>>(transitions).flatMap(({ from }) => from))
    expect(states.filter((state) => !left.has(state)).sort()).toEqual([...ends].sort())
  })
})
