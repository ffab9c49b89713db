// A process that lands one answer and leaves one receipt, for whoever watches what it asks of the system. Argument: the folder of the landings.
import { openLandingFolder } from '../../src/extract/landing-folder.ts'

const store = openLandingFolder(process.argv[2] ?? '')
await store.ready()
const writer = await store.create({
  box: {
    key: 'traffic/v1/2026-01/domain=a.com',
    pipeline: 'traffic',
    version: 1,
    window: { from: '2026-01-01', to: '2026-02-01' },
    slice: { domain: 'a.com' },
  },
  warehouse: { id: '5b1c7d2e-0000-4000-8000-000000000001', epoch: 1 },
  askNumber: '1',
  fence: '1',
  nonce: 'c0ffee',
})
const body = async function* () {
  yield Buffer.from('rows\n')
}
for await (const _ of writer.part({ format: 'csv', part: 1, body: body() }).body);
await writer.finish({ completeness: { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null } })
await store.notes.write('_warehouses/w/receipts/0/1.json', 'bought')
