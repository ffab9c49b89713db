// Arguments in, exit code out: 0 done, 1 some units failed or held, 2 wrong usage, definition or configuration, 130 interrupted.

import { setFlagsFromString } from 'node:v8'
import { Argument, Command, CommanderError, Option } from 'commander'
import { diskError } from '../core/disk-error.ts'
import { type ErrorCode, isEtlError, messageOf, settingError } from '../core/errors.ts'
import { withPackages } from '../core/optional-package.ts'
import { redact, secret } from '../core/redact.ts'
import { traceWith } from '../core/trace.ts'
import { version } from '../core/shipped.ts'
import { setWaitListener } from '../core/waiting.ts'
import { databaseError, isDatabaseError } from '../db/database-error.ts'
import { cancelOn } from '../db/stoppable.ts'
import { parsePlace } from '../definition/problem.ts'
import { type CommandSpec, sharedOptions } from './command-spec.ts'
import { commands } from './commands.ts'
import { clearBar, columnsOf, createOutput, shortenPaths, type Output, paint, restoreScreen, wrapText } from './output.ts'

/** Codes that mean nothing was called and the caller must change something first. */
const usageCodes: ReadonlySet<ErrorCode> = new Set([
  'USAGE',
  'CONFIGURATION',
  'DEFINITION',
  'SCHEMA_BEHIND',
  'SCHEMA_AHEAD',
  'TABLE_DRIFT',
  'LANDING_REFUSED',
])

/** Runs one command line and ends the process with its exit code. */
export const main = async (argv: readonly string[]): Promise<void> => {
  const ending = interruption()
  let refused: Error | null = null
  // Stop in order when the reader closes the output (`millrace … | head`): that is no failure.
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A terminal that was closed answers EIO, as a disk in trouble does.
      if (error.code !== 'EPIPE' && !(error.code === 'EIO' && stream.isTTY)) refused ??= error
      ending.stop()
    })
  process.exitCode = await runCommandLine(argv, ending)
  // Sockets kept alive by pools must not delay the end of a finished command.
  await flush()
  if (refused !== null) {
    report(diskError(refused, 'the output'), createOutput(false))
    process.exitCode = 1
  }
  process.exit()
}

const flush = async (): Promise<void> => {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>((resolve) => (stream.writableLength === 0 ? resolve() : stream.write('', () => resolve())))
  }
  // The error of a refused write comes one tick later.
  await new Promise((resolve) => setImmediate(resolve))
}

const runCommandLine = async (argv: readonly string[], ending: Interruption): Promise<number> => {
  let exitCode = 0
  const program = buildProgram(commands, ending, (code) => {
    exitCode = code
  })
  try {
    await program.parseAsync(withCommand(argv), { from: 'user' })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return usageEnded(error, argv)
    throw error
  }
}

/** Makes `help` of an unknown command fail like the command itself: commander would print the whole help. */
const withCommand = (argv: readonly string[]): string[] => {
  const name = argv[0] === 'help' ? argv[1] : argv[0]
  const isOne = name === undefined || /^(-|help$)/.test(name) || commands.some(({ usage }) => usage.split(' ')[0] === name)
  return isOne ? [...argv] : [name]
}

/** Commander has already printed its message for people; with --json the same goes out as an event. */
const usageEnded = ({ exitCode, message }: CommanderError, argv: readonly string[]): number => {
  if (exitCode === 0) return 0
  if (!argv.includes('--json')) return 2
  const output = createOutput(true)
  output.event({ event: 'error', code: 'USAGE', message: message.replace(/^error: /, '') })
  const known = argv.find((word) => commands.some(({ usage }) => usage.split(' ')[0] === word))
  output.summary(known ?? 'millrace', { error: 'USAGE' })
  return 2
}

const closingHelp = `
Start with \`millrace demo\`: it needs no account. \`millrace COMMAND --help\` shows
options and examples of a command. Settings are read from the environment and
from .env; \`millrace check\` finds every problem with them in one go.`

/** The whole command line as commander knows it. @param exit takes the exit code of the command that ran */
export const buildProgram = (specs: readonly CommandSpec[], ending: Interruption, exit: (code: number) => void): Command => {
  const program = new Command('millrace')
    .description('Loads a web-analytics service into your own PostgreSQL: nightly, backfilled by date range, proved complete.')
    .version(version)
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .showHelpAfterError('(`millrace --help` lists the commands)')
    .configureOutput({ outputError: (text, write) => write(`${text}${ownersOf(text, specs)}`) })
    .addHelpText('after', closingHelp)
    .exitOverride()
  for (const spec of specs) addCommand(program, spec, ending, exit)
  if (process.argv.length <= 2) program.action(() => program.outputHelp())
  return program
}

/** Names the commands that accept an option which this command refused. */
const ownersOf = (refusal: string, specs: readonly CommandSpec[]): string => {
  const flag = /^error: unknown option '(--[a-z-]+)/.exec(refusal)?.[1]
  if (sharedOptions.some(({ flags }) => flags === flag))
    return `(write ${flag} after the command, for example: millrace status ${flag})\n`
  const owners = specs.filter(({ options = [] }) => options.some(({ flags }) => flags.split(/[ ,]+/).includes(flag ?? '')))
  return owners.length === 0 ? '' : `(${flag} is an option of ${owners.map(({ usage }) => usage.split(' ')[0]).join(', ')})\n`
}

const addCommand = (program: Command, spec: CommandSpec, ending: Interruption, exit: (code: number) => void): void => {
  const [name = '', ...parameters] = spec.usage.split(' ')
  const command = program.command(name).description(spec.description).exitOverride()
  for (const parameter of parameters) {
    const argument = new Argument(parameter)
    command.addArgument(parameter.includes('|') ? argument.choices(argument.name().split('|')) : argument)
  }
  for (const { flags, description, fallback, values, separator } of [...(spec.options ?? []), ...sharedOptions]) {
    const option = new Option(flags, description).default(fallback)
    if (separator !== undefined) option.argParser<string>((value, before) => (before ? `${before}${separator}${value}` : value))
    command.addOption(values === undefined ? option : option.choices(values))
  }
  command.showHelpAfterError(`(for example: ${spec.examples[0] ?? name}; \`millrace ${name} --help\` has all it takes)`)
  command.addHelpText('after', `\nExamples:\n${spec.examples.map((example) => `  ${example}`).join('\n')}`)
  command.action(async (...parameters: unknown[]) => {
    const args = parameters
      .slice(0, -2)
      .flatMap((value) => (Array.isArray(value) ? value.map(String) : value === undefined ? [] : [String(value)]))
    exit(await perform(program, spec, args, command.opts(), ending))
  })
}

const perform = async (
  program: Command,
  spec: CommandSpec,
  args: readonly string[],
  options: Readonly<Record<string, unknown>>,
  { signal, isSignalled }: Interruption,
): Promise<number> => {
  const output = createOutput(options['json'] === true)
  setWaitListener((message) => {
    output.event({ event: 'notice', code: 'WAITING', message })
    output.note(message)
  })
  const endTracing = await startTracing(process.env, version)
  try {
    const handle = await spec.load()
    // Garbage of streams dies young: letting V8's young generation grow to 32 MB only costs memory and cache misses. Set after the
    // modules are loaded: they live on, and while loading let it grow as large as it needs to be.
    setFlagsFromString('--semi-space-growth-factor=1')
    // Buffers of parallel reports outlive the young generation; without this V8 collects them only at a multiple of the memory in use.
    setFlagsFromString('--heap-growing-percent=40')
    const called = { name: nameOf(spec, args), args, options, output, environment: process.env, folder: process.cwd() }
    const invocation = { ...called, signal, commands, program }
    const code = await cancelOn(signal, () => handle(invocation))
    if (signal.aborted) await sumUpStopped(spec, args, output, isSignalled())
    return isSignalled() ? 130 : code
  } catch (thrown) {
    if (signal.aborted) {
      await sumUpStopped(spec, args, output, isSignalled())
      return 130
    }
    const error = isDatabaseError(thrown) ? databaseError(thrown, 'ended the command') : diskError(thrown)
    return await endsWithError(error, nameOf(spec, args), output)
  } finally {
    // An unreachable collector must not change the result of the command.
    await endTracing().catch((error: unknown) =>
      process.stderr.write(`${redact(`millrace: traces were not sent: ${messageOf(error)}`)}\n`),
    )
  }
}

/** Prints the last line of a command that was stopped before its summary, or that runs until stopped. @param isAsked a person stopped it; else the output has no reader */
const sumUpStopped = async (spec: CommandSpec, args: readonly string[], output: Output, isAsked: boolean) => {
  if (output.isSummedUp()) return
  if (!output.json) return isAsked ? output.note('millrace: stopped.') : undefined
  const { stoppedEvent } = await import('./summary.ts')
  output.event(stoppedEvent(nameOf(spec, args)))
}

/** The command's name in a summary: `reports list`, `run`. */
const nameOf = ({ usage }: CommandSpec, [action]: readonly string[]): string => {
  const [name = ''] = usage.split(' ')
  return usage.includes('|') ? `${name} ${action}` : name
}

/** Prints the error and, with --json, a summary as the last line: counts are 0, or left out where something may have been done. @returns the exit code */
const endsWithError = async (error: unknown, command: string, output: Output): Promise<number> => {
  const code = report(error, output)
  if (!usageCodes.has(code)) {
    output.summary(command, { error: code })
    return 1
  }
  const { stoppedEvent } = await import('./summary.ts')
  output.event({ ...stoppedEvent(command), error: code })
  return 2
}

const report = (error: unknown, output: Output): ErrorCode => {
  const code = isEtlError(error) ? error.code : 'INTERNAL'
  const text = isEtlError(error)
    ? error.message
    : `A defect in Millrace: ${error instanceof Error ? (error.stack ?? error.message) : messageOf(error)}`
  const said = wrapText(`${paint('red', 'millrace:', process.stderr)} ${shortenPaths(text)} [${code}]`, columnsOf(process.stderr))
  process.stderr.write(`${redact(said)}\n`)
  // Each with its file, line and column, for editors and CI.
  const problems = isEtlError(error) && Array.isArray(error.context['problems']) ? { problems: error.context['problems'] } : {}
  output.event({ event: 'error', code, message: text, ...parsePlace(text), ...problems })
  return code
}

/** Time limit for an orderly end, whatever hangs: the database, the disk, or the reader of the output. The rest is recovered as after a kill. */
const endsWithinMs = 15_000

/** Ends by the signal itself: `process.exit` waits for threads, and a thread that is stuck in an fsync never returns. */
const endAtOnce = (): void => {
  restoreScreen()
  process.removeAllListeners('SIGINT')
  process.kill(process.pid, 'SIGINT')
  // The first process of a container (pid 1) ignores its own signal.
  setTimeout(() => process.exit(130), 200)
}

/** One Ctrl-C can arrive twice, from the terminal and forwarded by npm or our launcher. A second one of a person takes longer. */
const sameSignalMs = 500

interface Interruption {
  readonly signal: AbortSignal
  readonly isSignalled: () => boolean
  /** Asks for an orderly end without a message: the output has no reader. */
  readonly stop: () => void
}

/** SIGHUP: the terminal was closed, or the connection to it is lost. */
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The first of these signals asks for an orderly end; the second ends the process at once. */
const interruption = (): Interruption => {
  const controller = new AbortController()
  let firstAt = 0
  const onSignal = (): void => {
    if (firstAt > 0) {
      if (performance.now() - firstAt > sameSignalMs) endAtOnce()
      return
    }
    firstAt = performance.now()
    clearBar()
    process.stderr.write('millrace: stopping; press Ctrl-C again to stop at once\n')
    controller.abort(new Error('interrupted'))
  }
  for (const signal of stopSignals) process.on(signal, onSignal)
  const onLate = (): void => {
    clearBar()
    process.stderr.write(
      `millrace: not over ${endsWithinMs / 1_000} s after the signal to stop; ended at once. Run it again to resume.\n`,
    )
    endAtOnce()
  }
  controller.signal.addEventListener('abort', () => setTimeout(onLate, endsWithinMs).unref(), { once: true })
  return {
    signal: controller.signal,
    isSignalled: () => firstAt > 0,
    stop: () => controller.abort(new Error('the output was closed')),
  }
}

type Environment = Readonly<Record<string, string | undefined>>

/** Endpoints and `OTEL_TRACES_EXPORTER=otlp` switch traces on, `none` and `OTEL_SDK_DISABLED=true` off. */
const tracesAsked = (environment: Environment): boolean => {
  if (environment['OTEL_SDK_DISABLED'] === 'true') return false
  const exporter = environment['OTEL_TRACES_EXPORTER'] ?? ''
  if (exporter !== '') return exporter.split(',').includes('otlp')
  return Boolean(environment['OTEL_EXPORTER_OTLP_ENDPOINT'] || environment['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'])
}

/** Resolves to a function that sends the last spans and ends tracing; it does nothing where traces are off. */
const startTracing = async (environment: Environment, version: string): Promise<() => Promise<void>> => {
  if (!tracesAsked(environment)) return async () => undefined
  const load = async () => {
    registerHeaders(environment)
    return withPackages('Traces', tracePackages, loadTracing)
  }
  const loaded = await load().catch(leftOut)
  if (loaded === null) return async () => undefined
  const [{ SpanStatusCode, trace }, { BatchSpanProcessor, NodeTracerProvider }, { OTLPTraceExporter }, resources] = loaded
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
  traceWith((name, attributes, work) =>
    tracer.startActiveSpan(name, { attributes }, async (span) => {
      try {
        return await work()
      } catch (error) {
        span.setStatus({ code: SpanStatusCode.ERROR, message: redact(messageOf(error)) })
        throw error
      } finally {
        span.end()
      }
    }),
  )
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

/** A cluster may set these variables for all its programs: without the packages a command runs without traces, and says so. */
const leftOut = (error: unknown): null => {
  if (!isEtlError(error)) throw error
  process.stderr.write(`millrace: no traces are sent. ${error.message}\n`)
  return null
}

/** Headers of the collector often hold a token: `OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer abc`. */
const registerHeaders = (environment: Environment): void => {
  for (const name of ['OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'])
    for (const pair of (environment[name] ?? '').split(',')) {
      const value = decoded(name, pair.slice(pair.indexOf('=') + 1)).trim()
      if (value !== '') secret(name, value.replace(/^(Bearer|Basic) /i, ''))
    }
}

const decoded = (name: string, text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    throw settingError(`${name} has a '%' without two hex digits behind it; write it as %25.`, cause)
  }
}
