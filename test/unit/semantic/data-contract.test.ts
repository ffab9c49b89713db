// The data contract says of every published table its columns, its key and by when it is there, as the standard's own schema wants it.
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { dataContract } from '../../../src/semantic/documents.ts'
import { shippedDefinitions } from '../../support/definitions.ts'

interface Contract {
  readonly schema: readonly {
    readonly name: string
    readonly properties: readonly { readonly name: string; readonly logicalType: string; readonly primaryKeyPosition?: number }[]
  }[]
  readonly slaProperties: readonly { readonly property: string; readonly value: number; readonly schedule?: string }[]
}

test('has every column, the key in its order, and the times at which a pipeline runs; a pipeline that is not published is left out', async () => {
  const definitions = await shippedDefinitions()
  const withPromise = definitions.map((one) => ({ ...one, expect: { monthBy: 12 }, publish: one.pipeline !== 'keywords' }))
  const contract: Contract = parse(dataContract(withPromise))
  expect(contract.schema.map(({ name }) => name)).toEqual(['shopper_category_performance', 'traffic_and_engagement'])
  for (const { name, properties } of contract.schema) {
    const definition = definitions.find(({ pipeline }) => pipeline === name)
    expect(properties.map((property) => property.name)).toEqual(definition?.columns.map((column) => column.name))
    const key = properties.filter(({ primaryKeyPosition }) => primaryKeyPosition !== undefined)
    const inOrder = key.toSorted((a, b) => (a.primaryKeyPosition ?? 0) - (b.primaryKeyPosition ?? 0))
    expect(inOrder.map((property) => property.name)).toEqual(definition?.key)
  }
  expect(contract.slaProperties).toContainEqual(expect.objectContaining({ property: 'latency', value: 12 }))
  expect(contract.slaProperties).toContainEqual(expect.objectContaining({ property: 'frequency', schedule: '0 3 * * *' }))
})

const python = process.env['MILLRACE_CLIENTS_CONTRACT']

test.skipIf(python === undefined)('is valid by the official schema', async () => {
  const script = `
import json, sys, yaml, jsonschema, importlib.util, pathlib
folder = pathlib.Path(importlib.util.find_spec('open_data_contract_standard').origin).parent
schema = json.loads((folder / 'schema.json').read_text())
found = list(jsonschema.Draft201909Validator(schema).iter_errors(yaml.safe_load(sys.stdin.read())))
print(json.dumps([error.message[:200] for error in found]))`
  const text = dataContract(await shippedDefinitions())
  expect(JSON.parse(execFileSync(python ?? '', ['-c', script], { input: text, encoding: 'utf8' }))).toEqual([])
  const broken = text.replace('logicalType: "date"', 'logicalType: "day"')
  expect(JSON.parse(execFileSync(python ?? '', ['-c', script], { input: broken, encoding: 'utf8' }))).not.toEqual([])
})
