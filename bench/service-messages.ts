// What the benchmark's service can be told, and what it answers.
import { z } from 'zod'

export const orderSchema = z.discriminatedUnion('do', [
  z.object({ do: z.literal('reports'), files: z.record(z.string(), z.string()) }),
  z.object({
    do: z.literal('keywords'),
    pages: z.int(),
    perPage: z.int(),
    delayMs: z.number(),
    requestsPerSecond: z.number().nullable(),
  }),
  z.object({ do: z.literal('arrivals') }),
])

export type Order = z.infer<typeof orderSchema>

export const answerSchema = z.object({
  port: z.int().optional(),
  /** Milliseconds of each keyword request since the last order. */
  arrivals: z.array(z.number()).optional(),
  refused: z.int().optional(),
})
