// The number in an address: one that no row can have is an address of nothing.
import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'

/** Of the path's `:id`. Throws 404. */
export const numberIn = (context: Context): number => {
  const value = Number(context.req.param('id'))
  if (Number.isSafeInteger(value)) return value
  throw new HTTPException(404, { message: 'There is nothing at this address.' })
}
