// A place in trouble is noticed once: one request tries, the others wait; who has waited long enough is let go.
import { describe, expect, test } from 'vitest'
import { EtlError } from '../../../src/core/errors.ts'
import {
  createBreaker,
  type Finding,
  type Breaker,
  type Trouble,
  type Waiter,
  wholeAccount,
} from '../../../src/extract/breaker.ts'
import { type ManualClock, manualClock, startOfTime } from '../../support/manual-clock.ts'

const never = new AbortController().signal
const waiter = (more: Partial<Waiter> = {}): Waiter => ({
  places: [wholeAccount, '/status'],
  signal: never,
  patience: { attempts: 3, deadlineMs: 3_600_000 },
  run: 'a run',
  longestPauseMs: 60_000,
  ...more,
})
const finding = (more: Partial<Finding> = {}): Finding => ({
  place: wholeAccount,
  error: new EtlError('SERVICE_UNREACHABLE', 'It is away.'),
  askedMs: null,
  opensAfter: 3,
  isLasting: false,
  ...more,
})

interface World {
  readonly clock: ManualClock
  readonly breaker: Breaker
  readonly told: (Trouble | null)[]
}

const world = (): World => {
  const clock = manualClock()
  const told: (Trouble | null)[] = []
  return { clock, told, breaker: createBreaker({ clock, tell: (_, trouble) => void told.push(trouble) }) }
}

const shut = async ({ breaker }: World, found = finding()): Promise<void> => {
  for (let time = 0; time < found.opensAfter; time += 1) (await breaker.pass(waiter())).end(found)
}

const waiting = (breaker: Breaker, more: Partial<Waiter> = {}) => {
  const state: { passed: Awaited<ReturnType<Breaker['pass']>> | null; error: unknown } = { passed: null, error: null }
  breaker.pass(waiter(more)).then(
    (pass) => {
      state.passed = pass
    },
    (error: unknown) => {
      state.error = error
    },
  )
  return state
}

describe('the breaker', () => {
  test('lets all pass until three in a row have failed; an answer in between begins anew', async () => {
    const { breaker } = world()
    for (const found of [finding(), finding(), null, finding(), finding()]) (await breaker.pass(waiter())).end(found)
    expect(breaker.isOpen(wholeAccount)).toBe(false)
    ;(await breaker.pass(waiter())).end(finding())
    expect(breaker.isOpen(wholeAccount)).toBe(true)
  })

  test('has one that tried in vain let another one try: a single report in trouble keeps nobody from being polled', async () => {
    const { clock, breaker } = world()
    const trouble = finding({ place: '/status', askedMs: 5_000, opensAfter: 1 })
    const [bad, good] = [
      { places: ['/status'], requestId: '/status/1' },
      { places: ['/status'], requestId: '/status/2' },
    ]
    ;(await breaker.pass(waiter(bad))).end(trouble)
    for (let turn = 0; turn < 3; turn += 1) {
      const [first, second] = [waiting(breaker, bad), waiting(breaker, good)]
      await clock.run(clock.now() - startOfTime + 5_500)
      expect([first.passed, second.passed], `turn ${turn}`).toEqual([null, expect.anything()])
      second.passed?.end(null)
      await clock.run(clock.now() - startOfTime + 1)
      expect(first.passed, `turn ${turn}`).not.toBeNull()
      first.passed?.end(trouble)
    }
  })

  test('asks at once again for what is alone in trouble where no other waits', async () => {
    const { clock, breaker } = world()
    const trouble = finding({ place: '/keywords', askedMs: 1_000, opensAfter: 1 })
    const only = { places: ['/keywords'], requestId: '/keywords?domain=a.com' }
    ;(await breaker.pass(waiter(only))).end(trouble)
    const again = waiting(breaker, only)
    await clock.run(clock.now() - startOfTime + 1_000)
    expect(again.passed).not.toBeNull()
  })

  test('lets nobody else go for what one alone tried in vain: they have not tried yet', async () => {
    const { clock, breaker } = world()
    const trouble = finding({ opensAfter: 1 })
    const bad = { requestId: '/keywords?domain=bad.com' }
    ;(await breaker.pass(waiter(bad))).end(trouble)
    for (const ms of [1_000, 4_000, 13_000]) {
      const again = waiting(breaker, bad)
      await clock.run(ms)
      again.passed?.end(trouble)
    }
    const submission = { longestPauseMs: 0 }
    await expect(breaker.pass(waiter(submission))).rejects.toMatchObject({ follows: { isFinal: false } })
    await expect(breaker.pass(waiter(bad))).rejects.toMatchObject({ follows: { isFinal: true } })
    await clock.run(40_000)
    ;(await breaker.pass(waiter(submission))).end(trouble)
    await expect(breaker.pass(waiter(submission))).rejects.toMatchObject({ follows: { isFinal: true } })
  })

  test('lets one try at a growing pause, and all go on when it is answered', async () => {
    const here = world()
    const { clock, breaker, told } = here
    await shut(here)
    const requests = Array.from({ length: 5 }, () => waiting(breaker))
    const passed = () => requests.filter((request) => request.passed !== null)
    await clock.run(900)
    expect(passed()).toHaveLength(0)
    await clock.run(1_000)
    expect(passed()).toHaveLength(1)
    passed()[0]?.passed?.end(finding())
    await clock.run(3_900)
    expect(passed()).toHaveLength(1)
    await clock.run(4_000)
    expect(passed()).toHaveLength(2)
    passed().at(-1)?.passed?.end(null)
    await clock.run(4_001)
    expect(passed()).toHaveLength(5)
    expect(told.map((trouble) => trouble?.code ?? 'over')).toEqual(['SERVICE_UNREACHABLE', 'SERVICE_UNREACHABLE', 'over'])
  })

  test('says within seconds what lasts, and not what is over at once', async () => {
    const short = world()
    await shut(short, finding({ opensAfter: 1 }))
    expect(short.told).toHaveLength(0)
    const long = world()
    await shut(long, finding({ opensAfter: 1, askedMs: 30_000 }))
    expect(long.told).toHaveLength(1)
  })

  test('says a pause of minutes that is asked for while a short one lasts', async () => {
    const here = world()
    const [first, second] = [await here.breaker.pass(waiter()), await here.breaker.pass(waiter())]
    first.end(finding({ opensAfter: 1 }))
    second.end(finding({ opensAfter: 1, askedMs: 300_000 }))
    expect(here.told).toMatchObject([{ nextInMs: 300_000 }])
  })

  test('waits no longer where the clock is set back meanwhile', async () => {
    const clock = manualClock()
    let aheadMs = 172_800_000
    const now = (): number => clock.now() + aheadMs
    const here = { clock, told: [], breaker: createBreaker({ clock: { ...clock, now }, tell: () => undefined }) }
    await shut(here)
    aheadMs = 0
    const [first, late] = [waiting(here.breaker), waiting(here.breaker, { longestPauseMs: 0 })]
    await clock.run(1_000)
    expect(first.passed).not.toBeNull()
    expect(late.error).toMatchObject({ notBefore: startOfTime + 1_000 })
  })

  test('lets go of all that wait once the tries are spent, and of who comes then; later one tries anew', async () => {
    const here = world()
    const { clock, breaker } = here
    await shut(here)
    const requests = Array.from({ length: 4 }, () => waiting(breaker))
    for (const until of [1_000, 4_000, 13_000]) {
      await clock.run(until)
      const probe = requests.find((request) => request.passed !== null)
      probe?.passed?.end(finding())
      if (probe !== undefined) requests.splice(requests.indexOf(probe), 1)
      if (until < 13_000) requests.push(waiting(breaker))
    }
    await clock.run(13_001)
    expect(requests.map((request) => request.error)).toEqual(
      requests.map(() =>
        expect.objectContaining({
          code: 'SERVICE_UNREACHABLE',
          follows: expect.objectContaining({ next: 'wait for the service', isFinal: true }),
        }),
      ),
    )
    const late = waiting(breaker)
    await clock.run(13_002)
    expect(late.error).toMatchObject({ follows: { isFinal: true } })
    await clock.run(60_000)
    await expect(breaker.pass(waiter())).rejects.toMatchObject({ follows: { isFinal: true } })
    const [later, beside] = [waiting(breaker, { run: 'a later run' }), waiting(breaker, { run: 'a later run' })]
    await clock.run(60_001)
    expect([later.passed !== null, beside.error]).toEqual([true, null])
    later.passed?.end(finding())
    await clock.run(60_002)
    // It was tried once in vain since that run came, and may be twice more.
    expect(beside.error).toBeNull()
  })

  test('lets go at the deadline, not when the next try is due, of all that wait and of who comes back for the same run', async () => {
    const here = world()
    const { clock, breaker } = here
    const patience = { attempts: 100, deadlineMs: 5_000 }
    await shut(here, finding({ opensAfter: 1 }))
    const requests = Array.from({ length: 3 }, () => waiting(breaker, { patience }))
    for (const until of [1_000, 4_000]) {
      await clock.run(until)
      requests.find((request) => request.passed !== null)?.passed?.end(finding())
      requests.splice(
        requests.findIndex((request) => request.passed !== null),
        1,
        waiting(breaker, { patience }),
      )
    }
    await clock.run(4_999)
    expect(requests.map(({ error }) => error)).toEqual([null, null, null])
    await clock.run(5_000)
    expect(requests.map(({ error }) => error)).toEqual(
      requests.map(() => expect.objectContaining({ follows: expect.objectContaining({ isFinal: true }) })),
    )
    // What may not be sent twice does not wait at the breaker but comes back, time and again.
    await clock.run(20_000)
    await expect(breaker.pass(waiter({ patience, longestPauseMs: 0 }))).rejects.toMatchObject({ follows: { isFinal: true } })
    expect((await breaker.pass(waiter({ patience, run: 'a later run' }))) !== null).toBe(true)
  })

  test('waits no longer than the deadline, and for what takes its time as long as that', async () => {
    const here = world()
    const { clock, breaker } = here
    await shut(here, finding({ opensAfter: 1, isLasting: true }))
    for (const until of [1_000, 4_000, 13_000, 40_000, 100_000]) {
      const probe = waiting(breaker, { patience: { attempts: 1, deadlineMs: 120_000 } })
      await clock.run(until)
      expect(probe.error).toBeNull()
      probe.passed?.end(finding({ isLasting: true }))
    }
    await clock.run(121_000)
    const late = waiting(breaker, { patience: { attempts: 1, deadlineMs: 120_000 } })
    await clock.run(121_001)
    expect(late.error).toMatchObject({ follows: { isFinal: true } })
  })

  test('a request that may not wait is told when to come back', async () => {
    const here = world()
    await shut(here)
    await expect(here.breaker.pass(waiter({ longestPauseMs: 0 }))).rejects.toMatchObject({
      notBefore: here.clock.now() + 1_000,
      sent: false,
      follows: { next: 'wait for the service', isFinal: false },
    })
  })

  test('a path in trouble keeps nobody from the others; a probe that is stopped leaves its turn', async () => {
    const here = world()
    const { clock, breaker } = here
    await shut(here, finding({ place: '/status' }))
    ;(await breaker.pass(waiter({ places: [wholeAccount, '/keywords'] }))).end(null)
    const [first, second] = [waiting(breaker), waiting(breaker)]
    await clock.run(1_000)
    first.passed?.drop()
    await clock.run(1_001)
    expect([first.passed !== null, second.passed !== null]).toEqual([true, true])
  })

  test('who is stopped while it waits goes at once', async () => {
    const here = world()
    await shut(here)
    const stop = new AbortController()
    const stopped = waiting(here.breaker, { signal: stop.signal })
    stop.abort(new Error('stop'))
    await here.clock.run(1)
    expect(stopped.error).toBe(stop.signal.reason)
  })
})
