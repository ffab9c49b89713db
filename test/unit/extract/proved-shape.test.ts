import { expect, test } from 'vitest'
import { EtlError } from '../../../src/core/errors.ts'
import { inProvedShape } from '../../../src/extract/proved-shape.ts'
import { manualClock } from '../../support/manual-clock.ts'

const minute = 60_000

/** A service that answers what nobody can read until it is mended. */
const world = (key: string) => {
  const clock = manualClock()
  const service = { asked: 0, isMended: false, fault: 'keywords expected a list' }
  const answer = (): Promise<string> => {
    service.asked += 1
    return service.isMended
      ? Promise.resolve('a page')
      : Promise.reject(new EtlError('UNUSABLE', `Answer ${service.asked} is something else.`, { fault: service.fault }))
  }
  const ask = (forcedBy: number | null = null): Promise<string> => {
    const waiter = { clock, signal: new AbortController().signal, unit: 'a.com', forcedBy }
    return inProvedShape(key, waiter, answer).catch((error: Error) => error.message)
  }
  return { clock, service, ask }
}

test('three answers that cannot be read for the same fault stop the others, who say until when, and that --force does not wait', async () => {
  const { service, ask } = world('stops')
  await ask()
  await ask()
  await ask()
  expect(await ask()).toMatch(/^a\.com: not requested, nothing was paid.*after 1970-01-01 00:26 UTC.*backfill … --force/)
  expect(service.asked).toBe(3)
})

test('answers that are wrong in several ways, or with one between that can be read, stop nobody', async () => {
  const { service, ask } = world('several ways')
  for (const fault of ['a', 'a', 'b', 'b', 'a', 'a']) {
    service.fault = fault
    await ask()
  }
  service.isMended = true
  expect(await ask()).toBe('a page')
  service.isMended = false
  await ask()
  await ask()
  expect(service.asked).toBe(9)
})

test('one is asked for again after ten minutes, and after three times as long each time, at most six hours', async () => {
  const { clock, service, ask } = world('waits')
  await ask()
  await ask()
  await ask()
  let at = 0
  for (const wait of [10, 30, 90, 270, 360, 360]) {
    const before = service.asked
    at += wait * minute
    await clock.run(at - 1)
    await ask()
    expect(service.asked, `${wait} minutes are not over`).toBe(before)
    await clock.run(at)
    await ask()
    await ask()
    expect(service.asked, `after ${wait} minutes`).toBe(before + 1)
  }
})

test('a run that a person forces asks for one at once, and for the others when it can be read', async () => {
  const { service, ask } = world('forced')
  await ask()
  await ask()
  await ask()
  await Promise.all([ask(7), ask(7), ask(7)])
  expect(service.asked, 'the first alone').toBe(4)
  service.isMended = true
  expect(await ask(7), 'the same run had its try').toMatch(/not requested/)
  expect(await Promise.all([ask(8), ask(8), ask(8)])).toEqual(['a page', 'a page', 'a page'])
  expect(await ask(), 'and so for everybody').toBe('a page')
})

test('who meets a trouble lets another one ask: one unit that is refused for good keeps no others from being asked for', async () => {
  const { signal } = new AbortController()
  const waiter = (unit: string) => ({ clock: manualClock(), signal, unit, forcedBy: null })
  const asked: string[] = []
  const bad = inProvedShape('turns', waiter('bad.com'), async (letOthers) => {
    for (let time = 0; time < 2; time += 1) {
      asked.push('bad.com')
      await letOthers()
    }
    return 'in the end'
  })
  const good = ['a.com', 'b.com'].map((unit) =>
    inProvedShape('turns', waiter(unit), () => {
      asked.push(unit)
      return Promise.resolve(unit)
    }),
  )
  expect(await Promise.all([...good, bad])).toEqual(['a.com', 'b.com', 'in the end'])
  expect(asked.slice(0, 2)).toEqual(['bad.com', 'a.com'])
})

test('a service that is away is asked by one at a time, in turn', async () => {
  const { signal } = new AbortController()
  const asked: string[] = []
  let atOnce = 0
  const asking = ['a.com', 'b.com', 'c.com'].map((unit) =>
    inProvedShape('away', { clock: manualClock(), signal, unit, forcedBy: null }, async (letOthers) => {
      for (let time = 0; time < 2; time += 1) {
        atOnce += 1
        expect(atOnce).toBe(1)
        asked.push(unit)
        await Promise.resolve()
        atOnce -= 1
        await letOthers()
      }
      throw new EtlError('SERVICE_ERROR', 'It is away.')
    }),
  )
  expect((await Promise.allSettled(asking)).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  expect(asked.slice(0, 3)).toEqual(['a.com', 'b.com', 'c.com'])
})
