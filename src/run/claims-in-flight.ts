// What this process has claimed and not let go of, over all its loops. The answer to a claim may be lost with the connection: what the ledger says the
// process holds beyond that is worked on by none, and its lease would keep it from everybody for as long as it lives.
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { type Claim, jobsClaimedBy } from '../ledger/claim-fence.ts'
import type { OwnProcess } from '../ledger/processes.ts'
import { giveBackJobs } from '../ledger/end-claim.ts'

interface Claims {
  /** Claims sent so far, and those of them that are not answered yet. */
  sent: number
  underWay: number
  readonly known: Set<string>
}

const claimsOf = new WeakMap<OwnProcess, Claims>()

const claimsBy = (own: OwnProcess): Claims => {
  const claims = claimsOf.get(own) ?? { sent: 0, underWay: 0, known: new Set() }
  claimsOf.set(own, claims)
  return claims
}

const nameOf = ({ jobId, fence }: Claim): string => `${jobId}.${fence}`

/** Remembers what `claim` brings. */
export const trackClaim = async (own: OwnProcess, claim: () => Promise<ClaimedJob[]>): Promise<ClaimedJob[]> => {
  const claims = claimsBy(own)
  claims.sent += 1
  claims.underWay += 1
  try {
    const jobs = await claim()
    for (const job of jobs) claims.known.add(nameOf(job))
    return jobs
  } finally {
    claims.underWay -= 1
  }
}

/** Settled, given back or another's. */
export const forgetClaims = (own: OwnProcess, jobs: readonly Claim[]): void => {
  const { known } = claimsBy(own)
  for (const job of jobs) known.delete(nameOf(job))
}

/** Gives back what the ledger says this process holds and no loop knows of. How many; none while a claim is on its way, whose answer may name them. */
export const freeStrays = async (db: Db, own: OwnProcess): Promise<number> => {
  const claims = claimsBy(own)
  const { sent } = claims
  if (claims.underWay > 0) return 0
  const held = await jobsClaimedBy(db, own.processId)
  if (claims.sent !== sent) return 0
  const strays = held.filter((claim) => !claims.known.has(nameOf(claim)))
  await giveBackJobs(db, strays)
  return strays.length
}
