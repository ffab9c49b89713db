// Sets of tags that purchases are charged to. A set never changes: what was bought with it keeps it.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** The number of the set, which is made where it is new. */
export const tagSetOf = async (trx: Db, tags: Readonly<Record<string, string>>): Promise<number> => {
  const text = JSON.stringify(tags)
  const known = () =>
    trx.selectFrom('etl.tag_sets').select('tag_set_id').where(sql<boolean>`tags = ${text}::jsonb`).executeTakeFirst()
  const found = await known()
  if (found !== undefined) return found.tag_set_id
  await trx
    .insertInto('etl.tag_sets')
    .values({ tags: text })
    .onConflict((on) => on.column('tags').doNothing())
    .execute()
  return (await known())?.tag_set_id ?? 1
}
