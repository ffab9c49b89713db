// Packages that only some need are asked for by name, in the version this program was tried with.
import { expect, test } from 'vitest'
import { withPackages } from '../../../src/core/optional-package.ts'

const missing = (name: string): Error =>
  Object.assign(new Error(`Cannot find package '${name}' imported from /srv/w/parquet.js`), { code: 'ERR_MODULE_NOT_FOUND' })

test('one that is not installed is named with the command that installs it', async () => {
  const asking = withPackages('Parquet files', ['hyparquet-writer'], () => Promise.reject(missing('hyparquet-writer')))
  await expect(asking).rejects.toMatchObject({ code: 'CONFIGURATION' })
  await expect(asking).rejects.toThrow(
    /^Parquet files need the package hyparquet-writer, .* Next: npm install 'hyparquet-writer@\^\d+\.\d+\.\d+'$/,
  )
})

test('any other error is what it is, and what is there is used', async () => {
  const asking = withPackages('Parquet files', ['hyparquet-writer'], () => Promise.reject(missing('somebody-else')))
  await expect(asking).rejects.toThrow("Cannot find package 'somebody-else'")
  expect(await withPackages('Parquet files', ['hyparquet-writer'], async () => 7)).toBe(7)
})
