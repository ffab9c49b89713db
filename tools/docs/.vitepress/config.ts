// The site: the Markdown of docs/ and of the pages beside README as it is, with a search that needs no service. A dead link fails the build.
import { cpSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { defineConfig } from 'vitepress'

const root = resolve(import.meta.dirname, '..', '..', '..')

/** A copy, beside which the generator finds its own packages. */
const pages = join(root, 'tools', 'docs', 'pages')
rmSync(pages, { recursive: true, force: true })
for (const name of ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'GOVERNANCE.md', 'CODE_OF_CONDUCT.md', 'docs']) cpSync(join(root, name), join(pages, name), { recursive: true })

/** Tasks and pages in the order of the table of docs/README.md: one list, written once. */
const tasks = (): { text: string; link: string }[] =>
  [...readFileSync(join(root, 'docs', 'README.md'), 'utf8').matchAll(/^\| ([^|]+) \| (\[.+\]\(.+\)) \|$/gm)].flatMap(([, task = '', links = '']) =>
    [...links.matchAll(/\[([^\]]+)\]\(([\w-]+)\.md\)/g)].map(([, text = '', link = '']) => ({
      text: text.charAt(0).toUpperCase() + text.slice(1),
      link: `/docs/${link}`,
      task,
    })),
  )

const decisions = (): { text: string; link: string }[] =>
  readdirSync(join(root, 'docs', 'internals', 'decisions'))
    .filter((name) => /^\d{4}-.*\.md$/.test(name))
    .sort()
    .map((name) => ({
      text: /^# (.*)$/m.exec(readFileSync(join(root, 'docs', 'internals', 'decisions', name), 'utf8'))?.[1] ?? name,
      link: `/docs/internals/decisions/${name.replace(/\.md$/, '')}`,
    }))

export default defineConfig({
  title: 'Millrace',
  description: 'Web-analytics reports and keyword research in your own PostgreSQL',
  srcDir: pages,
  outDir: join(root, 'tools', 'docs', 'dist'),
  cacheDir: join(root, 'tools', 'docs', 'cache'),
  rewrites: { 'README.md': 'index.md', 'docs/README.md': 'docs/index.md', 'docs/internals/README.md': 'docs/internals/index.md' },
  // Links to files of the repository that are no page of the site.
  ignoreDeadLinks: [
    /localhost/,
    /LICENSE/,
    /AGENTS/,
    /internals\/decisions$|^\.\/decisions$/,
    /bench\/RESULTS/,
    /\.(?:json|ya?ml|sql|ts|js|sh)$/,
    /^\.\.?\/(?:\.\.\/)*(?:src|test|examples|marts|pipelines|templates|migrations|dashboards)(?:\/|$)/,
  ],
  // Braces of the text are no template.
  markdown: {
    config: ({ renderer }) => {
      for (const kind of ['text', 'code_inline'] as const) {
        const rendered = renderer.rules[kind]
        renderer.rules[kind] = (...given) => (rendered?.(...given) ?? '').replaceAll('{{', '&#123;&#123;')
      }
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: [
      { text: 'Start', items: [{ text: 'Overview', link: '/' }] },
      { text: 'By task', items: tasks() },
      { text: 'Internals', collapsed: true, items: [{ text: 'Measurements', link: '/docs/internals/' }, ...decisions()] },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
    outline: [2, 3],
  },
})
