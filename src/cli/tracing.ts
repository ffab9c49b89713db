// OpenTelemetry, switched on by its standard environment variables and not even read from disk without them.
import { isEtlError } from '../core/errors.ts'
import { withPackages } from '../core/optional-package.ts'
import { redact, secret } from '../core/redact.ts'
import { traceWith } from '../core/trace.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Endpoints and `OTEL_TRACES_EXPORTER=otlp` switch traces on, `none` and `OTEL_SDK_DISABLED=true` off. */
const tracesAsked = (environment: Environment): boolean => {
  if (environment['OTEL_SDK_DISABLED'] === 'true') return false
  const exporter = environment['OTEL_TRACES_EXPORTER'] ?? ''
  if (exporter !== '') return exporter.split(',').includes('otlp')
  return Boolean(environment['OTEL_EXPORTER_OTLP_ENDPOINT'] || environment['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'])
}

/** Resolves to what sends the last spans and ends tracing; does nothing where traces are not asked for. */
export const startTracing = async (environment: Environment, version: string): Promise<() => Promise<void>> => {
  if (!tracesAsked(environment)) return async () => undefined
  registerHeaders(environment)
  const loaded = await withPackages('Traces', tracePackages, loadTracing).catch(leftOut)
  if (loaded === null) return async () => undefined
  const [{ context, SpanStatusCode, trace }, { BatchSpanProcessor, NodeTracerProvider }, { OTLPTraceExporter }, resources] =
    loaded
  const fromEnvironment = resources.detectResources({ detectors: [resources.envDetector] })
  const ownName = resources.resourceFromAttributes({
    'service.name': environment['OTEL_SERVICE_NAME'] || 'millrace',
    'service.version': version,
  })
  const provider = new NodeTracerProvider({
    resource: fromEnvironment.merge(ownName),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  })
  provider.register()
  const tracer = trace.getTracer('millrace', version)
  traceWith((name, attributes, work) => {
    const span = tracer.startSpan(name, { attributes })
    return context.with(trace.setSpan(context.active(), span), async () => {
      try {
        return await work()
      } catch (error) {
        const message = redact(error instanceof Error ? error.message : String(error))
        span.setStatus({ code: SpanStatusCode.ERROR, message })
        throw error
      } finally {
        span.end()
      }
    })
  })
  return async () => {
    traceWith(null)
    await provider.shutdown()
  }
}

const tracePackages = [
  '@opentelemetry/api',
  '@opentelemetry/sdk-trace-node',
  '@opentelemetry/exporter-trace-otlp-http',
  '@opentelemetry/resources',
]

const loadTracing = () =>
  Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace-node'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
  ])

/** A cluster sets these variables for everything that runs in it: a command goes on without traces, and says so. */
const leftOut = (error: unknown): null => {
  if (!isEtlError(error)) throw error
  process.stderr.write(`millrace: no traces are sent. ${error.message}\n`)
  return null
}

/** Headers of the collector often hold a token: `OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer abc`. */
const registerHeaders = (environment: Environment): void => {
  for (const name of ['OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'])
    for (const pair of (environment[name] ?? '').split(',')) {
      const value = decodeURIComponent(pair.slice(pair.indexOf('=') + 1)).trim()
      if (value !== '') secret(name, value.replace(/^(Bearer|Basic) /i, ''))
    }
}
