// Seeded minutes against a hostile service, a database that hangs and a clock that jumps: blocks of them, each a warehouse of its own, in lanes.
import { closeBlock, type Counts, liveMinute, openBlock } from './hostile-block.ts'
import { judge, settle } from './hostile-judge.ts'
import { type HostileServer, startHostileServer } from './hostile-server.ts'

export interface HostileSoakOptions {
  readonly minutes: number
  readonly seed: number
  readonly minutesOfBlock: number
  /** Blocks beside each other, each lane with a PostgreSQL of its own. */
  readonly lanes: number
  /** After so many seconds no further block is begun. */
  readonly seconds: number
  readonly note: (text: string) => void
}

export interface HostileFigures extends Counts {
  readonly seed: number
  readonly blocks: number
  readonly requests: number
  readonly reports: number
  /** How often each trick was played. */
  readonly played: Readonly<Record<string, number>>
  readonly seconds: number
  /** What must not be; empty when every promise held. */
  readonly wrong: readonly string[]
}

interface Soak {
  readonly options: HostileSoakOptions
  readonly counts: Counts
  readonly played: Record<string, number>
  readonly wrong: string[]
  blocks: number
  requests: number
  reports: number
}

export const runHostileSoak = async (options: HostileSoakOptions): Promise<HostileFigures> => {
  const began = performance.now()
  const counts: Counts = { minutes: 0, commands: 0, kills: 0, holds: 0, jumps: 0, waited: 0, cells: 0 }
  const soak: Soak = { options, counts, played: {}, wrong: [], blocks: 0, requests: 0, reports: 0 }
  const blocks = Math.ceil(options.minutes / options.minutesOfBlock)
  let next = 0
  const isOver = (): boolean => next >= blocks || performance.now() - began > options.seconds * 1_000
  const lane = async (): Promise<void> => {
    const server = await startHostileServer()
    try {
      while (!isOver()) await oneBlock(soak, server, options.seed * 1_000 + next++)
    } finally {
      await server.remove()
    }
  }
  await Promise.all(Array.from({ length: Math.min(options.lanes, blocks) }, lane))
  const { requests, reports, played, wrong } = soak
  const seconds = (performance.now() - began) / 1_000
  return { ...counts, seed: options.seed, blocks: soak.blocks, requests, reports, played, seconds, wrong }
}

const oneBlock = async (soak: Soak, server: HostileServer, seed: number): Promise<void> => {
  const { options, counts } = soak
  const began = performance.now()
  const block = await openBlock(server, seed, counts)
  try {
    for (let minute = 0; minute < options.minutesOfBlock; minute += 1) await liveMinute(block)
    await settle(block)
    await judge(block)
  } catch (error) {
    block.wrong.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
  const books = block.world.sandbox.books()
  soak.requests += Object.values(books.counts).reduce((sum, count) => sum + count, 0)
  soak.reports += books.submissions.length
  for (const [name, count] of Object.entries(block.service.played)) soak.played[name] = (soak.played[name] ?? 0) + count
  soak.blocks += 1
  soak.wrong.push(...block.wrong.map((text) => `block ${seed}: ${text}`))
  const seconds = ((performance.now() - began) / 1_000).toFixed(0)
  const soFar = JSON.stringify({ ...counts, reports: soak.reports, wrong: soak.wrong.length })
  options.note(`block ${seed}: ${block.wrong.length} wrong (${seconds} s); so far ${soFar}`)
  if (block.wrong.length > 0) options.note([...block.story, ...block.wrong.map((text) => `  WRONG ${text}`)].join('\n'))
  await closeBlock(block)
}
