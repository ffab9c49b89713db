// Every command of the list is done by a file of its own, and `roles` prints SQL without a warehouse.
import { expect, test } from 'vitest'
import { commands } from '../../../src/cli/commands.ts'
import type { Invocation } from '../../../src/cli/command-spec.ts'

test('no two commands are done by the same file', () => {
  const files = commands.map(({ load }) => String(load))
  expect(files.filter((file, at) => files.indexOf(file) !== at)).toEqual([])
})

test('roles prints the SQL of its three roles', async () => {
  const lines: string[] = []
  const output = { line: (text: string) => lines.push(text), summary: () => undefined }
  const handler = await commands.find(({ usage }) => usage === 'roles')?.load()
  const code = await handler?.({ output, options: {}, args: [], environment: {} } as unknown as Invocation)
  expect(code).toBe(0)
  for (const role of ['millrace_owner', 'millrace_loader', 'bi_reader']) expect(lines.join('\n')).toContain(role)
})
