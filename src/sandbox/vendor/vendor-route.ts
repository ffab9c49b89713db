// How the server finds who answers: path, method, and what an answer may look at.
import type { VendorBooks } from './vendor-books.ts'
import type { VendorSettings } from './vendor-options.ts'
import type { VendorReply } from './vendor-words.ts'

export interface Asked {
  readonly method: string
  readonly url: URL
  readonly body: unknown
  /** The key of the header. */
  readonly header: string
}

export interface Answering {
  readonly settings: VendorSettings
  readonly books: VendorBooks
  readonly linkBase: string
}

export interface Route {
  readonly path: RegExp
  readonly method: 'GET' | 'POST'
  readonly endpoint: VendorSettings['replies'][number]['endpoint']
  answer(of: Answering, asked: Asked, id: string): VendorReply
}
