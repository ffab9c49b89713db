// Links of the pages lead somewhere: to a file of the repository and, behind #, to a heading or an anchor of it. The site is built from the same pages.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '..', '..')
const markdownIn = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))
const pages = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'GOVERNANCE.md', 'AGENTS.md', ...markdownIn('docs')]

const withoutCode = (text: string): string => text.replaceAll(/^( *)```[\s\S]*?^\1```$/gm, '')

/** As GitHub and the site make it of a heading. */
const slug = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

const anchorsOf = (file: string): Set<string> => {
  const text = withoutCode(readFileSync(file, 'utf8'))
  const headings = [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => slug(heading))
  return new Set([...headings, ...[...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id = '']) => id)])
}

const problemOf = (page: string, target: string): string | null => {
  const [path = '', anchor] = target.split('#')
  const file = path === '' ? join(root, page) : resolve(root, dirname(page), decodeURI(path))
  if (!existsSync(file)) return `${target}: no such file`
  if (relative(root, file).startsWith('..')) return `${target}: leads out of the repository`
  const isPage = file.endsWith('.md') && statSync(file).isFile()
  return anchor === undefined || !isPage || anchorsOf(file).has(anchor) ? null : `${target}: no such heading`
}

const linksOf = (page: string): string[] => {
  const text = withoutCode(readFileSync(join(root, page), 'utf8')).replaceAll(/`[^`\n]*`/g, '')
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target).filter((one) => !/^[a-z]+:/.test(one))
}

describe.each(pages)('links of %s', (page) => {
  test('lead to files and headings that are there', () => {
    expect(linksOf(page).flatMap((target) => problemOf(page, target) ?? [])).toEqual([])
  })
})

describe('what is packed', () => {
  const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { files: string[] }
  const isIn = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`)
  const isPacked = (path: string): boolean =>
    [...files, 'README.md', 'LICENSE'].some((one) => isIn(path, one)) &&
    !files.some((one) => one.startsWith('!') && isIn(path, one.slice(1)))

  test.each([...pages, ...markdownIn('examples')].filter(isPacked))(
    '%s links to nothing that stays in the repository',
    (page) => {
      const targets = linksOf(page).map((target) =>
        relative(root, resolve(root, dirname(page), target.split('#')[0] || basename(page))),
      )
      expect(targets.filter((path) => !isPacked(path))).toEqual([])
    },
  )
})
