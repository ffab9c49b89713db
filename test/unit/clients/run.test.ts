// The comparison of what a client read with the catalog tells every kind of difference.
import { expect, test } from 'vitest'
import { compare, type Reading } from '../../clients/run.ts'

const relations: Reading['relations'] = {
  dim_domain: {
    kind: 'table',
    comment: 'Every domain.',
    columns: [{ name: 'domain', type: 'text', comment: 'Domain.' }],
    primaryKey: ['domain'],
    foreignKeys: ['domain -> bi.other(domain)'],
  },
}
const texts = ['2026-04-01', '9007199254740993', '0.1234567890123456789', 'straße', 'true', '2026-04-01 12:00', '{news,video}']
const values: Reading['values'] = [...texts.map((text): [string, string] => ['x', text]), null]

const types = new Map([['text', 'text']])

test('nothing is said where everything is the same, and each difference where it is not', () => {
  expect(compare({ client: 'c', relations, values }, relations, types).differences).toEqual([])
  const [domain] = Object.values(relations)
  if (domain === undefined) throw new Error('no relation')
  const other = {
    ...domain,
    kind: 'view',
    comment: null,
    primaryKey: [],
    foreignKeys: [],
    columns: [{ name: 'Domain', type: 'varchar', comment: '' }],
  }
  const rounded: Reading['values'] = values.map((value, at) => (at === 1 ? ['float', '9007199254740992'] : value))
  const { differences } = compare({ client: 'c', relations: { dim_domain: other }, values: rounded }, relations, types)
  expect(differences.map((text) => text.split(' of ')[0]?.split(':')[0])).toEqual([
    'relations', 'table comments', 'columns', 'types', 'column comments', 'primary keys', 'foreign keys', 'values',
  ]) // biome-ignore format: a list
})
