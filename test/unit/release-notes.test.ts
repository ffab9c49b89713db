// The changelog is sorted by version and kind, and a version fits a screen.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { mostLines, releaseNotes } from '../../scripts/release-notes.ts'

const changelog = (lines: string): string =>
  `# Changelog\n\n## 0.2.0 (unreleased)\n\n${lines}\n## 0.1.0 (2026-12-01)\n\n### Added\n\n- a\n`

describe('the notes of a version', () => {
  test('are its section alone, with the day it came out', () => {
    expect(releaseNotes(changelog('### Fixed\n\n- b\n\n'), '0.1.0')).toEqual({
      text: '### Added\n\n- a',
      day: '2026-12-01',
      problems: [],
    })
    expect(releaseNotes(changelog('### Fixed\n\n- b\n\n'), '0.2.0')).toEqual({
      text: '### Fixed\n\n- b',
      day: null,
      problems: [],
    })
  })

  test.each([
    ['- new\n\n### Added\n\n- b\n\n', '1 line above the first heading: sort under Breaking, Added, Changed, Fixed.'],
    ['### News\n\n- b\n\n', "'### News' is none of Breaking, Added, Changed, Fixed."],
    ['### Fixed\n\n- b\n\n### Added\n\n- c\n\n', 'Its headings belong in this order, each once: Added, Fixed.'],
    [`### Added\n\n${'- b\n'.repeat(mostLines)}\n`, `It has ${mostLines + 2} lines; ${mostLines} fit a screen.`],
    ['', 'It says nothing.'],
  ])('say what is wrong: %j', (lines, problem) => {
    expect(releaseNotes(changelog(lines), '0.2.0').problems).toEqual([problem])
  })

  test('are missed where there are none', () => {
    expect(releaseNotes(changelog(''), '0.3.0').problems).toEqual(["CHANGELOG.md has no section '## 0.3.0'."])
  })

  test('of the version that comes next fit a screen and have known headings', () => {
    const root = resolve(import.meta.dirname, '..', '..')
    const { version } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8'))
    const { problems } = releaseNotes(readFileSync(resolve(root, 'CHANGELOG.md'), 'utf8'), version)
    expect(problems.filter((problem) => !/above the first heading/.test(problem))).toEqual([])
  })
})
