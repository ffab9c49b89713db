// A question that is not answered, why, and what would be.

/** Not a failure: the question as it stands has no right answer, or costs too much. */
export class QueryRefusedError extends Error {
  override readonly name = 'QueryRefusedError'
  /** Changes to the question that would make it answerable, the best first. */
  readonly instead: readonly string[]

  constructor(because: string, instead: readonly string[] = []) {
    super(because)
    this.instead = instead
  }
}

/** Never returns. @param instead what to ask instead */
export const refuse = (because: string, instead: readonly string[] = []): never => {
  throw new QueryRefusedError(because, instead)
}
