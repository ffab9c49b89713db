// A parameter of the source that a definition runs for instead.
import { describe, expect, test } from 'vitest'
import { checkDefinitions } from '../../../src/definition/load.ts'
import { showProblem } from '../../../src/definition/problem.ts'
import { keywords } from '../../../src/sources/web-analytics/keywords.ts'
import { contractExample } from './checking.ts'

describe('a parameter', () => {
  const forEach = (values: string, params = 'params: { traffic_source: All, web_source: Total }') =>
    checkDefinitions({
      folder: 'pipelines',
      files: [
        {
          file: 'pipelines/p.yaml',
          text: contractExample
            .replace('params: { traffic_source: All, web_source: Total, branded_type: All }', params)
            .replace('  country: [us, gb]', `  country: [us, gb]\n  branded_type: ${values}`),
        },
      ],
      sources: new Map([[keywords.name, keywords]]),
      readList: (shown) => ({ shown, text: 'a.com\n' }),
    })

  test('that for_each names is each unit’s own: it is no parameter of the pipeline any more', () => {
    const { definitions, problems } = forEach('[Branded, NonBranded]')
    expect(problems).toEqual([])
    expect(definitions[0]?.params).toEqual({ traffic_source: 'All', web_source: 'Total' })
    expect(definitions[0]?.columns.find(({ name }) => name === 'branded_type')?.origin).toBe('slice')
  })

  test('stands in one of the two places, and takes the values of the service', () => {
    expect(forEach('[All]', 'params: { branded_type: All }').problems.map(showProblem)).toEqual([
      "pipelines/p.yaml:6:11: 'branded_type' is in params and in for_each; keep it in one of the two.",
    ])
    expect(forEach('[branded]').problems.map(showProblem).join()).toMatch(
      /'branded' does not fit; expected one of Branded, NonBranded, All/,
    )
  })
})
