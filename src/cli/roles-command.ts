// `millrace roles`: the SQL that parts owner, loader and reader of the warehouse.
import { rolesSql } from '../db/role-statements.ts'
import type { Handler } from './command-spec.ts'

/** Prints SQL and runs none. */
export const handle: Handler = async ({ output }) => {
  const text = rolesSql()
  output.event({ event: 'summary', command: 'roles', sql: text })
  output.line(text)
  return 0
}
