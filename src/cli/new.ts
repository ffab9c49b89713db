// `millrace new dataset NAME`: the YAML and the migration of one more dataset.
import { readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { EtlError } from '../core/errors.ts'
import { shippedMigrations } from '../db/migrate.ts'
import { newDataset } from '../definition/new-dataset.ts'
import { findSource } from '../pipeline/open-runtime.ts'
import type { Handler } from './command-spec.ts'
import { pipelinesFolder } from './runtime.ts'

export const handle: Handler = async (invocation) => {
  const [kind, name] = invocation.args
  if (kind !== 'dataset' || name === undefined)
    throw new EtlError('USAGE', 'Write `millrace new dataset NAME`, for example `millrace new dataset traffic_sources`.')
  const folder = pipelinesFolder(invocation)
  const files = await newDataset({
    name,
    source: await findSource(folder, String(invocation.options['source'])),
    folder,
    migrationsFolder: join(folder, '..', 'migrations'),
    earlier: await readdir(shippedMigrations),
  })
  const shown = files.map((file) => relative(invocation.folder, file))
  invocation.output.event({ event: 'summary', command: 'new', dataset: name, files: shown })
  for (const file of shown) invocation.output.line(`wrote ${file}`)
  invocation.output.line('Next: fill both in, then `millrace check --offline` and `millrace migrate`.')
  return 0
}
