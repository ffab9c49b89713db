// The world of a soak: definitions that are due every minute, a service that restates and misbehaves, and processes that are started again when they end.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault } from '../../src/sandbox/fault-kinds.ts'
import { createStormWorld, type StormWorld, stormPipelines } from '../storm/storm-world.ts'
import { type RunningCommand, startCommand } from '../support/command.ts'

/** The storm's world; its schedules tick each minute. */
export const createSoakWorld = (jobs: number): StormWorld => {
  const world = createStormWorld(jobs)
  for (const pipeline of stormPipelines) {
    const file = join(world.folder, 'pipelines', `${pipeline}.yaml`)
    const text = readFileSync(file, 'utf8')
      .replace(/cron: "[^"]+"/, 'cron: "* * * * *"')
      .replace('deadline: 8s', 'deadline: 10m')
      .replace('attempts: 3', 'attempts: 20')
      .replace('timeout: 1s', 'timeout: 20s')
      .replace('from: 2024-01', `from: ${world.from}`)
    writeFileSync(file, text)
  }
  return world
}

const often = 0.01

/** What a service does now and then; none loses the answer to a submission, which would have to wait for a person. */
export const misbehaviour: readonly Fault[] = [
  { kind: 'slow', delayMs: 400, probability: often },
  { kind: 'status-429', on: 'keywords', retryAfter: 'seconds', retryAfterSeconds: 1, probability: 0.003 },
  { kind: 'status-500', on: 'keywords', probability: often },
  { kind: 'status-503', on: 'status', probability: often },
  { kind: 'reset-mid-body', on: 'download', probability: often },
  { kind: 'truncate-body', on: 'download', mode: 'chunked', probability: often },
  { kind: 'truncate-body', on: 'keywords', mode: 'length', probability: often },
  { kind: 'html-200', on: 'keywords', probability: often },
  { kind: 'bad-gzip', on: 'download', probability: often },
  { kind: 'count-drift', probability: 0.005 },
  { kind: 'short-page', probability: 0.005 },
  { kind: 'repeated-page', probability: 0.005 },
  { kind: 'duplicate-rows', probability: often },
]

/** A process that has to be there all the time. */
export interface Kept {
  readonly name: string
  pid(): number | null
  /** How often it ended by itself. */
  ended(): number
  stop(): Promise<void>
}

/** For whoever has to find out what went wrong. */
export const keepWords = (logs: string | null, name: string, words: string): void => {
  if (logs === null) return
  mkdirSync(logs, { recursive: true })
  appendFileSync(join(logs, `${name}.log`), words)
}

export interface Keeping {
  readonly name: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly folder: string
  readonly logs: string | null
}

/** Started again a second after it ended. */
export const keepRunning = ({ name, args, environment, folder, logs }: Keeping): Kept => {
  let stopped = false
  let ended = 0
  let current: RunningCommand | null = null
  const loop = async (): Promise<void> => {
    while (!stopped) {
      current = startCommand(args, environment, folder)
      keepWords(logs, name, (await current.result).stderr)
      if (stopped) return
      ended += 1
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    }
  }
  const looping = loop()
  return {
    name,
    pid: () => current?.child.pid ?? null,
    ended: () => ended,
    stop: async () => {
      stopped = true
      current?.child.kill('SIGTERM')
      const late = setTimeout(() => current?.child.kill('SIGKILL'), 20_000)
      await looping
      clearTimeout(late)
    },
  }
}
