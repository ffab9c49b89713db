// The service as the interface has it.
import { endpoints } from './endpoints.ts'

export const dialectV4 = {
  name: 'v4',
  paths: endpoints,
  keyInQuery: ['keywords', 'capabilities', 'user_capabilities', 'subscribe', 'unsubscribe', 'authorize'],
  keywords: {
    parameters: {
      domain: 'URL',
      country: 'country',
      from: 'start_date',
      to: 'end_date',
      limit: 'limit',
      offset: 'offset',
    },
    list: 'keywords',
    country: (code: string): string => code.toLowerCase(),
    filter: (value: string): string => value,
    fields: {},
    lacks: [],
  },
} as const
