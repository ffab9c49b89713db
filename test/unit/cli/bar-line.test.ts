// A progress bar shares its terminal with messages: each takes the bar's line, and none is written into what is left of it.
import { afterEach, expect, test, vi } from 'vitest'
import { setBarVisible, createOutput, restoreScreen } from '../../../src/cli/output.ts'

const written = (): string[] => {
  const parts: string[] = []
  for (const stream of [process.stderr, process.stdout])
    vi.spyOn(stream, 'write').mockImplementation((part) => {
      parts.push(String(part))
      return true
    })
  return parts
}

afterEach(() => {
  setBarVisible(false)
  vi.restoreAllMocks()
})

const clear = '\r\u001b[2K'

test('a message clears the bar before it; without a bar nothing is cleared', () => {
  const parts = written()
  const { line, note } = createOutput(false)
  note('one')
  line('two')
  expect(parts).toEqual(['one\n', 'two\n'])
  setBarVisible(true)
  note('three')
  line('four')
  expect(parts.slice(2)).toEqual([clear, 'three\n', clear, 'four\n'])
})

test('a process that ends in the midst of a bar gives the cursor and the wrapping of lines back', () => {
  const parts = written()
  restoreScreen()
  expect(parts).toEqual([])
  setBarVisible(true)
  restoreScreen()
  expect(parts.join('')).toBe(`${clear}\u001b[?7h\u001b[?25h`)
})

test('the log is JSON for machines, and words for a person at a terminal', () => {
  const parts = written()
  const entry =
    '{"level":"warn","time":"2026-01-01T00:00:00.000Z","pipeline":"keywords","error":"no answer","msg":"a unit could not be checked"}\n'
  const { isTTY } = process.stderr
  process.stderr.isTTY = true
  createOutput(true).log(entry)
  createOutput(false).log(entry)
  process.stderr.isTTY = isTTY
  expect(parts[0]).toBe(entry)
  expect(parts[1]?.replaceAll(/\s+/g, ' ').trim()).toBe(
    'warn: a unit could not be checked (pipeline: keywords, error: no answer)',
  )
})
