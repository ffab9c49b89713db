// What a definition may say of indexes, and what its migration makes of it.
import { describe, expect, test } from 'vitest'
import { datasetMigration } from '../../../src/run/new-migration.ts'
import { showProblem } from '../../../src/definition/problem.ts'
import { check, contractExample } from './checking.ts'

const withIndexes = (indexes: string): string => contractExample.replace('  columns:\n', `  indexes: ${indexes}\n  columns:\n`)

const problemsOf = (indexes: string): string[] => check(withIndexes(indexes)).problems.map(showProblem)

/** Whose rows are whose: every table has them. */
const byUnit = ['keywords_v1', 'keywords_v1_history'].map((table) => `'create index on data.${table} using brin (_unit_id)'`)

describe('an index of a definition', () => {
  test('has columns in order and what it carries along; without any, the key is all', () => {
    const { definitions, problems } = check(
      withIndexes('[{ columns: [keyword, country], include: [clicks] }, { columns: [country] }]'),
    )
    expect(problems).toEqual([])
    expect(definitions[0]?.indexes).toEqual([
      { columns: ['keyword', 'country'], include: ['clicks'] },
      { columns: ['country'], include: [] },
    ])
    expect(check(contractExample).definitions[0]?.indexes).toEqual([])
  })

  test('is a statement of its migration, on the current rows alone', () => {
    const [definition] = check(
      withIndexes('[{ columns: [keyword, country], include: [clicks] }, { columns: [country] }]'),
    ).definitions
    if (definition === undefined) throw new Error('no definition')
    expect(datasetMigration(definition, []).match(/'create index .*'/g)).toEqual([
      `'create index on data.keywords_v1 ("keyword", "country") include ("clicks")'`,
      `'create index on data.keywords_v1 ("country")'`,
      ...byUnit,
    ])
    expect(datasetMigration({ ...definition, indexes: [] }, []).match(/'create index .*'/g)).toEqual(byUnit)
  })

  test.each([
    ['[{ columns: [keywrd] }]', /p\.yaml:14:25: the table has no column 'keywrd' to index\. Did you mean 'keyword'\?/],
    ['[{ columns: [keyword], include: [click] }]', /p\.yaml:14:45: the table has no column 'click'.*Did you mean 'clicks'/],
    ['[{ columns: [keyword, keyword] }]', /'keyword' appears twice in the index/],
    ['[{ columns: [keyword], include: [keyword] }]', /'keyword' appears twice in the index/],
    ['[{ columns: [keyword], include: [serp_features] }]', /'serp_features' is text\[\] and may be longer than an index entry/],
    ['[{ columns: [month, domain] }]', /the key begins with these columns and is an index already/],
    [
      '[{ columns: [keyword], include: [clicks, country] }, { columns: [keyword], include: [country, clicks] }]',
      /the same index appears twice/,
    ],
    ['[{ columns: [] }]', /table\.indexes\.0\.columns.*at least one column name/],
    ['[{ column: [keyword] }]', /column/],
    ['{ columns: [keyword] }', /table\.indexes is .*expected a list of indexes/],
  ])('%s is a problem where it stands', (indexes, message) => {
    expect(problemsOf(indexes).join('\n')).toMatch(message)
  })

  test('that begins as the key does and carries columns is none', () => {
    expect(problemsOf('[{ columns: [month, domain], include: [clicks] }]')).toEqual([])
  })

  test('cannot have more columns than PostgreSQL allows', () => {
    const metrics = Array.from({ length: 33 }, (_, at) => `m${at}`)
    const declared = metrics.map((name) => `    ${name}: { type: bigint, from: clicks }\n`).join('')
    const text = withIndexes(`[{ columns: [${metrics.join(', ')}] }]`).replace('    keyword:', `${declared}    keyword:`)
    expect(check(text).problems.map(showProblem).join()).toContain('an index of 33 columns; PostgreSQL allows 32')
  })
})
