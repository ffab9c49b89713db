// After the hostility: ordinary commands and what a person would do with the service's books at hand; then the warehouse against the truth, the books
// against the reasons there were to buy, and every sink against the key.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { homeless, restless, snapshot } from '../outsider/ledger-state.ts'
import { bodyText } from '../outsider/purchase-history.ts'
import { abandoned, boughtTooOften, timesBought } from '../outsider/purchases.ts'
import { wantedTruth } from '../outsider/truth.ts'
import { currentRows, type HeldUnit, shrunkUnits, unfinishedUnits } from '../outsider/warehouse.ts'
import { pipelines } from '../outsider/world.ts'
import { anySpellingIn } from '../support/canary.ts'
import { everyPage, everyTable, filesBelow } from '../support/every-sink.ts'
import { eventsOf } from '../support/command.ts'
import { type Block, noteForced, runTo } from './hostile-block.ts'

const mostRounds = 6

export const settle = async (block: Block): Promise<void> => {
  const { service, server, world, story, wrong } = block
  service.play([])
  server.letGo()
  server.setAhead(0)
  story.push('  the hostility is over')
  // A person's commands are processes of their own: what a service's answers look like is remembered for hours within one.
  block.pool.clear()
  await runTo(block, ['check'])
  const [from = '', to = ''] = [world.months[0], world.months.at(-1)]
  const all = ['backfill', ...pipelines, '--from', from, '--to', to, '--yes', '--json']
  for (let round = 1; ; round += 1) {
    await judgePurchases(block)
    await runTo(block, ['approve'])
    // What was begun for values that have left the lists is finished by a run alone.
    await runTo(block, ['run', '--json'])
    const { code, text } = await runTo(block, all)
    const left = await unfinishedUnits(world.database.pool)
    for (const unit of await shrunkUnits(world.database.pool)) await runTo(block, ['release', unit])
    if (code === 0 && left.length === 0) break
    story.push(`    left: ${left.map(({ unit, state, code: why }) => `${unit} ${state} (${why})`).join(', ')}`)
    if (round === mostRounds) {
      wrong.push(`the last backfill ended with ${code}, ${left.length} units are unfinished: ${text.slice(-800)}`)
      break
    }
    if (round > 1) await askAgain(block, left)
  }
  for (const month of block.restated) await force(block, month, [])
}

/** The person knows that the service lied, and pays for these again. */
const askAgain = async (block: Block, left: readonly HeldUnit[]): Promise<void> => {
  const asked = new Set(
    left.filter(({ state }) => state === 'held' || state === 'failed').map(({ pipeline, month }) => `${pipeline} ${month}`),
  )
  for (const one of asked) {
    const [pipeline = '', month = ''] = one.split(' ')
    const domains = new Set(left.filter((unit) => unit.pipeline === pipeline && unit.month === month).map(({ domain }) => domain))
    await force(block, month, ['--only', `domain=${[...domains].join()}`], [pipeline])
  }
}

const force = async (
  block: Block,
  month: string,
  more: readonly string[],
  asked: readonly string[] = pipelines,
): Promise<void> => {
  noteForced(block, asked, month, month)
  const ended = await runTo(block, ['backfill', ...asked, '--from', month, '--to', month, '--yes', '--force', ...more])
  if (ended.code !== 0) block.story.push(`    ${ended.text.trim().slice(-500)}`)
  // What the service restated away is held until a person says that it is gone.
  for (const unit of await shrunkUnits(block.world.database.pool)) await runTo(block, ['release', unit])
}

/** Purchases nobody can tell of: what the service's books have is adopted, what they do not have is given up. */
const judgePurchases = async (block: Block): Promise<void> => {
  const { database, world, story } = block
  const { rows } = await database.pool.query<{ job: string; state: string; request: unknown; id: string | null }>(
    `select job_id as job, report_state as state, request, report_id as id from etl.jobs where report_state is not null order by job_id`,
  )
  const submissions = world.sandbox.books().submissions
  const real = new Set(submissions.map(({ id }) => id))
  const known = new Set(rows.flatMap(({ id }) => (id === null ? [] : [id])))
  const listed = await runTo(block, ['reports', 'list', '--json'])
  // The service's books have it, whatever its status said in the storm.
  for (const { kind, job_id, report_id } of eventsOf(listed.text))
    if (kind === 'lost' && typeof report_id === 'string' && real.has(report_id))
      await runTo(block, ['reports', 'adopt', String(job_id), report_id])
  for (const { job, state, request, id } of rows) {
    const misnamed = id !== null && !real.has(id)
    if (state !== 'uncertain' && state !== 'intent' && !misnamed) continue
    const found = submissions.find((one) => !known.has(one.id) && bodyText(one.body) === bodyText(request))
    if (found === undefined && misnamed && state !== 'submitted') continue
    if (found !== undefined) known.add(found.id)
    const args = found === undefined ? ['give-up', job, ...(misnamed ? ['--sure'] : [])] : ['adopt', job, found.id]
    const { code, text } = await runTo(block, ['reports', ...args])
    if (code !== 0) story.push(`    job ${job} ${state} ${id?.slice(0, 40) ?? 'no id'}: ${text.trim().slice(-300)}`)
  }
}

export const judge = async (block: Block): Promise<void> => {
  const { world, wrong, forced, restated, service } = block
  const { pool } = world.database
  const reasons = (cell: string): number => {
    const [pipeline = '', month = ''] = cell.split(' ')
    return 1 + (forced.get(`${pipeline} ${month}`) ?? 0) + (restated.has(month) ? 1 : 0)
  }
  const submissions = world.sandbox.books().submissions
  wrong.push(...boughtTooOften(timesBought(submissions), reasons).slice(0, 5))
  const left = await abandoned(world)
  wrong.push(...left.slice(0, 5))
  if (left.length > 0)
    block.story.push(
      ...(
        await pool.query<{ line: string }>(
          `select concat_ws(' ', job_id, state, reason, report_state, status_word, report_id, error_code, error_message) as line from etl.jobs
           where report_state is not null and answer_id is null order by job_id`,
        )
      ).rows.map(({ line }) => `  ${line.slice(0, 400)}`),
    )
  // Data that was a lie in itself is put right by asking for all of it again.
  if (block.spoilsData) for (const month of world.months) await force(block, month, [])
  wrong.push(...(await differences(block)).slice(0, 8))
  wrong.push(...(await restless(pool)), ...(await homeless(pool)))
  if (wrong.length > 0) block.story.push(`  ${await snapshot(pool)}`)
  await lookForKey(block)
  const strayed = world.sandbox.books().keysAstray
  if (strayed > 0) wrong.push(`${strayed} requests carried the key to where it does not belong`)
  const gone = anySpellingIn(service.elsewhere.join('\n'))
  if (gone.length > 0) wrong.push(`the key went to another host: ${gone}`)
}

/** Wanted units whose rows are not those of the service. */
const differences = async ({ world, counts }: Block): Promise<string[]> => {
  const [truth, held] = [wantedTruth(world), await currentRows(world.database.pool)]
  return [...truth].flatMap(([unit, rows]) => {
    const own = held.get(unit) ?? []
    counts.cells += rows.length
    if (own.join() === rows.join()) return []
    const [ours, theirs] = [own.find((row) => !rows.includes(row)), rows.find((row) => !own.includes(row))]
    return [`${unit} has ${own.length} rows, the service ${rows.length}; ours ${ours}, theirs ${theirs}`]
  })
}

const lookForKey = async ({ world, wrong, output, database, server }: Block): Promise<void> => {
  const sinks = {
    output,
    tables: await everyTable({ database }),
    files: filesBelow(join(world.folder, 'home')),
    pages: await everyPage({ database }),
    'the log of PostgreSQL': readFileSync(server.log, 'latin1'),
  }
  for (const [name, text] of Object.entries(sinks)) {
    const spellings = anySpellingIn(text)
    if (spellings.length > 0) wrong.push(`the key is in ${name}: ${spellings.join(', ')}`)
  }
}
