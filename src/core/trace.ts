// The seam for traces: a span is a name, attributes and the work it covers. Without a tracer the work is simply done.

/** Never a secret: endpoints, unit keys, counts. */
type SpanAttributes = Readonly<Record<string, string | number>>

type Tracer = <T>(name: string, attributes: SpanAttributes, work: () => Promise<T>) => Promise<T>

let tracer: Tracer | null = null

/** Sets the process's tracer; null turns traces off. */
export const traceWith = (next: Tracer | null): void => {
  tracer = next
}

/** Does `work` within a span named `name`: run, unit, request, parse or load. A span is a child of the one it is started in. */
export const inSpan: Tracer = (name, attributes, work) => (tracer === null ? work() : tracer(name, attributes, work))
