// Where the numbers of transactions mean what they meant, and where not.
import { describe, expect, test } from 'vitest'
import { isSamePlace, readProof, type RowsProof } from '../../../src/load/rows-proof.ts'

const proof: RowsProof = {
  ...{ server: '7301', database: '5', table: '16400', shape: 'abc', at: '1000' },
  ...{ transactions: ['1000', '1001'], rows: 3, maker: 'm' },
}
const { server, database, table, shape } = proof
const now = { server, database, table, shape, at: '1005' }

describe('numbers of transactions', () => {
  test('mean the same on the same server, in the same table, until half of them are used up', () => {
    expect(isSamePlace(proof, now)).toBe(true)
    expect(isSamePlace(proof, { ...now, at: String(1000 + 2 ** 31 - 1) })).toBe(true)
  })

  test.each([
    ['another server, such as a restored dump or an upgrade', { server: '7302' }],
    ['another database, such as a clone', { database: '6' }],
    ['another table', { table: '16401' }],
    ['other columns', { shape: 'abd' }],
    ['so many transactions later that numbers may come again', { at: String(1000 + 2 ** 31) }],
    ['4 billion transactions later', { at: String(1000 + 2 ** 32) }],
    ['a server that was set back', { at: '999' }],
  ])('mean nothing with %s', (_, change) => {
    expect(isSamePlace(proof, { ...now, ...change })).toBe(false)
  })
})

test('a proof is read back as it was written; what is none is none', () => {
  expect(readProof(JSON.parse(JSON.stringify(proof)))).toEqual(proof)
  const { shape: _, ...less } = proof
  for (const other of [null, {}, less, { ...proof, rows: 1.5 }]) expect(readProof(other)).toBeNull()
})
