// Deep freezing, so that nothing downstream can change a definition.

/** Freezes `value` and everything reachable from it; returns the same object. */
export const freeze = <Value>(value: Value): Value => {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const part of Object.values(value)) freeze(part)
  return value
}
