// What figures are asked of in a test: the views of its database, published from what ships, the shipped model, and a reader.
import type { Mart } from '../../src/core/mart.ts'
import { secret } from '../../src/core/redact.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { publish } from '../../src/publish/publish.ts'
import { openReader, type Reader } from '../../src/semantic/reader.ts'
import { shippedDefinitions } from './definitions.ts'
import type { TestDatabase } from './postgres.ts'

export const readerOf = ({ url }: TestDatabase): Promise<Reader> =>
  openReader({ readerUrl: null, databaseUrl: secret('test database', url), home: '/nowhere' })

export interface OpenFigures {
  readonly marts: readonly Mart[]
  readonly model: SemanticModel
  /** Closed by who opened it. */
  readonly reader: Reader
}

export const openFigures = async (db: TestDatabase): Promise<OpenFigures> => {
  const marts = await loadMarts([])
  const model = await loadSemantics([])
  await publish(db.database, await shippedDefinitions(), marts)
  return { marts, model, reader: await readerOf(db) }
}
