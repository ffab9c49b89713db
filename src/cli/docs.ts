// `millrace docs`: the data dictionary and the dbt sources, made from the definitions and the marts.
import { relative, resolve } from 'node:path'
import { writeDocs } from '../pipeline/write-docs.ts'
import type { Handler } from './command-spec.ts'
import { pipelinesFolder } from './runtime.ts'

/** With `--check` exit code 1 where a file is not as the definitions say. */
export const handle: Handler = async (invocation) => {
  const { folder, options, output } = invocation
  const check = options['check'] === true
  const { files, stale } = await writeDocs({
    pipelinesFolder: pipelinesFolder(invocation),
    out: resolve(folder, String(options['out'])),
    check,
  })
  const shown = (list: readonly string[]): string[] => list.map((file) => relative(folder, file))
  output.event({ event: 'summary', command: 'docs', check, files: shown(files), stale: shown(stale) })
  for (const file of files) {
    const differs = stale.includes(file)
    output.line(`${differs ? (check ? 'stale    ' : 'wrote    ') : 'unchanged'} ${relative(folder, file)}`)
  }
  if (check && stale.length > 0) output.line('Run `millrace docs` and commit what it writes.')
  return check && stale.length > 0 ? 1 : 0
}
