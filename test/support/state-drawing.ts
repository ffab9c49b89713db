// The drawing of a state machine, made from the table of its transitions; docs/internals/how-it-works.md holds it word for word.
import type { Transition } from '../../src/ledger/transitions.ts'

/** A Mermaid diagram: one line for each pair of states, with what leads from one to the other. */
export const drawingOf = (transitions: Readonly<Record<string, Transition<string>>>, begins: string): string => {
  const arrows = new Map<string, string[]>()
  for (const [event, { from, to }] of Object.entries(transitions)) {
    for (const start of [...from, ...(event === begins ? ['[*]'] : [])]) {
      for (const end of to.length === 0 ? ['[*]'] : to) {
        const arrow = `${start} --> ${end}`
        arrows.set(arrow, [...(arrows.get(arrow) ?? []), event])
      }
    }
  }
  const lines = [...arrows].map(([arrow, events]) => `  ${arrow}: ${events.join(', ')}`)
  return ['```mermaid', 'stateDiagram-v2', ...lines, '```'].join('\n')
}
