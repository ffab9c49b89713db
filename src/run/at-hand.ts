// What this process has claimed and not let go of, over all its loops. The answer to a claim may be lost with the connection: what the ledger says the
// process holds beyond that nobody works on, and its lease would keep it from everybody for as long as it lives.
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { type Hold, jobsHeldBy } from '../ledger/hold.ts'
import type { OwnProcess } from '../ledger/processes.ts'
import { giveBackJobs } from '../ledger/settle-job.ts'

interface Hand {
  /** Claims sent so far, and those of them that are not answered yet. */
  sent: number
  underWay: number
  readonly known: Set<string>
}

const hands = new WeakMap<OwnProcess, Hand>()

const handOf = (own: OwnProcess): Hand => {
  const hand = hands.get(own) ?? { sent: 0, underWay: 0, known: new Set() }
  hands.set(own, hand)
  return hand
}

const nameOf = ({ jobId, fence }: Hold): string => `${jobId}.${fence}`

/** Remembers what `claim` brings. */
export const takeInHand = async (own: OwnProcess, claim: () => Promise<ClaimedJob[]>): Promise<ClaimedJob[]> => {
  const hand = handOf(own)
  hand.sent += 1
  hand.underWay += 1
  try {
    const jobs = await claim()
    for (const job of jobs) hand.known.add(nameOf(job))
    return jobs
  } finally {
    hand.underWay -= 1
  }
}

/** Settled, given back or another's. */
export const letGoOf = (own: OwnProcess, jobs: readonly Hold[]): void => {
  const { known } = handOf(own)
  for (const job of jobs) known.delete(nameOf(job))
}

/** Gives back what the ledger says this process holds and no loop knows of. How many; none while a claim is on its way, whose answer may name them. */
export const freeStrays = async (db: Db, own: OwnProcess): Promise<number> => {
  const hand = handOf(own)
  const { sent } = hand
  if (hand.underWay > 0) return 0
  const held = await jobsHeldBy(db, own.processId)
  if (hand.sent !== sent) return 0
  const strays = held.filter((hold) => !hand.known.has(nameOf(hold)))
  await giveBackJobs(db, strays)
  return strays.length
}
