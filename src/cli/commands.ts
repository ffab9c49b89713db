// The table of commands: what `--help` says, which options exist, and which file does the work.
import { type CommandSpec, mcpPort, option, type OptionSpec, pagePort } from './command-spec.ts'

const from = option('--from <month>', 'first month, YYYY-MM (or a day, YYYY-MM-DD)')
const to = option('--to <month>', 'last month, inclusive, YYYY-MM (or a day)')
const only: OptionSpec = {
  ...option(
    '--only <list>',
    'only these values: domain=a.com,b.com (for another dimension repeat the option, or write ; between them)',
  ),
  separator: ';',
}
const dryRun = option('--dry-run', 'the plan: units by reason, reports, requests, credits, rows; spends nothing')
const yes = option('--yes', 'also buy what would wait for approval')
const consent = option('--resubmit-uncertain', 'resubmit where the answer to a submission was lost; may buy a report twice')
const account = option('--account <name>', 'account whose key is used', 'default')
const force = option('--force', 'load finished units again; buys their reports again')

export const commands: readonly CommandSpec[] = [
  {
    usage: 'run [pipeline...]',
    description: 'Load what is due now: new windows, unfinished units, restated months within the look-back, some older ones.',
    options: [dryRun, only, yes, consent],
    examples: ['millrace run', 'millrace run --dry-run', 'millrace run keywords --json'],
    load: async () => (await import('./run-commands.ts')).run,
  },
  {
    usage: 'backfill <pipeline...>',
    description: 'Load a range of months, both ends included; run it again to resume.',
    options: [
      from,
      to,
      dryRun,
      only,
      yes,
      force,
      option('--order <order>', 'which month comes first: newest or oldest', 'newest', ['newest', 'oldest']),
      consent,
    ],
    examples: [
      'millrace backfill keywords --from 2026-01 --to 2026-03 --dry-run',
      'millrace backfill keywords --from 2026-01 --to 2026-03',
    ],
    load: async () => (await import('./run-commands.ts')).backfill,
  },
  {
    usage: 'plan [pipeline...]',
    description:
      'Show what a run, or the backfill of a range, would do and why: units, reports, credits, changes; spends nothing.',
    options: [from, to, only, force],
    examples: ['millrace plan', 'millrace plan keywords --from 2026-01 --to 2026-03', 'millrace plan --json'],
    load: async () => (await import('./run-commands.ts')).plan,
  },
  {
    usage: 'approve [pipeline...]',
    description: 'Approve purchases that wait because they exceed the nightly limit; the next run makes them.',
    options: [
      option('--dry-run', 'show what waits; approve nothing'),
      option('--withdraw', 'withdraw approvals of purchases not made yet'),
    ],
    examples: ['millrace approve --dry-run', 'millrace approve traffic_and_engagement'],
    load: async () => (await import('./approve-command.ts')).approveCommand,
  },
  {
    usage: 'schedule',
    description: 'Long-running: run each pipeline at its time, in its own time zone; missed nights are caught up.',
    examples: ['millrace schedule'],
    load: async () => (await import('./lasting-commands.ts')).schedule,
  },
  {
    usage: 'webhooks <subscribe|test|remove>',
    description: "Subscribe to the service's release messages, so that a running `schedule` loads new data at once.",
    options: [option('--account <name>', 'which account (default: every account of the definitions)')],
    examples: ['millrace webhooks subscribe', 'millrace webhooks test', 'millrace webhooks remove'],
    load: async () => (await import('./message-commands.ts')).webhooks,
  },
  {
    usage: 'notify <test|list> [receiver...]',
    description: 'Alarms: send a test message to each receiver, or list what is wrong now and which receivers were notified.',
    examples: ['millrace notify test', 'millrace notify test team', 'millrace notify list'],
    load: async () => (await import('./message-commands.ts')).notifications,
  },
  {
    usage: 'worker',
    description: 'Long-running: work for every run and scheduler from another machine; finish what no run waits for.',
    examples: ['millrace worker'],
    load: async () => (await import('./lasting-commands.ts')).worker,
  },
  {
    usage: 'replay [pipeline...]',
    description: 'Parse and load landed answers again, without calling the service.',
    options: [from, to, only, option('--answer <id>', 'only this answer, for those of its units that have no newer one')],
    examples: ['millrace replay keywords --from 2026-01 --to 2026-03', 'millrace replay --answer 812'],
    load: async () => (await import('./replay-commands.ts')).replay,
  },
  {
    usage: 'status [pipeline...]',
    description: 'Units by state, coverage by month, last run, freshness, quota and quarantine.',
    options: [
      option('--serve', 'serve the status page in a browser until Ctrl-C'),
      option('--port <port>', `port of the page; 0: any free one (default ${pagePort})`),
    ],
    examples: ['millrace status', 'millrace status keywords --json', 'millrace status --serve'],
    load: async () => (await import('./status-command.ts')).status,
  },
  {
    usage: 'cancel <run>',
    description: 'Stop a run; nothing is submitted after it. Reports it bought are finished by the next run.',
    examples: ['millrace cancel 12'],
    load: async () => (await import('./person-commands.ts')).cancel,
  },
  {
    usage: 'quarantine <list|show|retry> [what...]',
    description: 'Rejected rows, with the raw record and the reason; retry loads their answers again from the landing.',
    options: [option('--limit <rows>', 'rows to list', '50'), option('--all', 'also superseded rows')],
    examples: ['millrace quarantine list keywords', 'millrace quarantine show 17', 'millrace quarantine retry keywords'],
    load: async () => (await import('./replay-commands.ts')).quarantine,
  },
  {
    usage: 'release <unit...>',
    description: 'Release held units and work on them at once: load a suspicious answer as it is, or request a held unit again.',
    examples: ['millrace release 42'],
    load: async () => (await import('./person-commands.ts')).release,
  },
  {
    usage: 'reports <list|adopt|give-up> [what...]',
    description:
      'Purchases: list open, uncertain, lost, given-up or unused ones; record a report id the ledger lacks; give one up.',
    options: [
      option('--limit <reports>', 'purchases to list', '50'),
      option('--sure', 'give-up: also a report that is paid for and may still come'),
    ],
    examples: ['millrace reports list', 'millrace reports adopt 812 rep_4711', 'millrace reports give-up 812'],
    load: async () => (await import('./person-commands.ts')).reports,
  },
  {
    usage: 'check',
    description: 'Find every problem in one go: definitions, migrations, live tables, configuration, keys, capabilities.',
    options: [
      option('--offline', 'do not call the service'),
      option('--all', 'also list passed checks, and skipped ones with the reason'),
    ],
    examples: ['millrace check', 'millrace check --all'],
    load: async () => (await import('./check-command.ts')).checkCommand,
  },
  {
    usage: 'test [pipeline...]',
    description: 'Run definitions over the recorded answers beside them, offline: rows, rejects, drift and tests as expected.',
    options: [option('--accept', 'store the current results as the expected ones')],
    examples: ['millrace test', 'millrace test keywords', 'millrace test --accept'],
    load: async () => (await import('./dataset-commands.ts')).test,
  },
  {
    usage: 'record <unit>',
    description: 'Write a recorded answer for `millrace test`, cut from the landed answer of a unit.',
    options: [
      option('--records <records>', 'records to keep', '20'),
      option('--anonymous', 'replace the requested domains and numbers, but no brands in keywords'),
    ],
    examples: ['millrace record 42', 'millrace record 42 --records 5 --anonymous'],
    load: async () => (await import('./dataset-commands.ts')).record,
  },
  {
    usage: 'migrate',
    description: 'Apply migrations and publish the bi views; safe when two start at once.',
    options: [
      option('--dry-run', 'print the SQL that would be applied'),
      option('--wait <seconds>', 'how long each change waits for readers that block it; then it names them and exits 1', '60'),
      option(
        '--as <what>',
        'declare what a copied database is: restored or moved (it replaces the original), or clone (it is used beside it); or moved-service: the service has another address and key',
        undefined,
        ['restored', 'moved', 'clone', 'moved-service'],
      ),
    ],
    examples: ['millrace migrate', 'millrace migrate --wait 600', 'millrace migrate --as restored'],
    load: async () => (await import('./migrate-command.ts')).migrate,
  },
  {
    usage: 'roles',
    description: 'Print the SQL that creates separate roles for owner, loader and reader; for a superuser to run.',
    examples: ['millrace roles | psql "$SUPERUSER_URL"'],
    load: async () => (await import('./migrate-command.ts')).roles,
  },
  {
    usage: 'docs',
    description: 'Write data dictionary, lineage, and metrics for dbt, Lightdash, Superset and assistants, from your files.',
    options: [
      option('--check', 'write nothing; exit 1 where a document is stale'),
      option('--out <folder>', 'where the documents go', 'docs'),
    ],
    examples: ['millrace docs', 'millrace docs --check'],
    load: async () => (await import('./docs.ts')).docs,
  },
  {
    usage: 'export <view>',
    description:
      'Write a view of bi as a file: CSV (formulas made harmless) or Parquet; or as one Parquet file a month, for lakes.',
    options: [
      option(
        '--format <format>',
        'csv or parquet (default: as the name of the file says, else csv; with --by parquet)',
        undefined,
        ['csv', 'parquet'],
      ),
      option('--out <place>', 'the file, folder or s3://bucket/prefix (default: the name of the view in this folder)'),
      option('--by <period>', 'month: one Parquet file a month, under --out', undefined, ['month']),
      option('--since <last>', 'last: write only the months that changed since the last export to this place', undefined, [
        'last',
      ]),
      only,
      option('--from <month>', 'first month, such as 2026-01'),
      option('--to <month>', 'last month'),
    ],
    examples: [
      'millrace export keyword_comparison --out growth.csv',
      'millrace export keywords --format parquet --only domain=a.com --from 2026-01',
      'millrace export keywords --by month --since last --out s3://lake/keywords',
    ],
    load: async () => (await import('./bi-commands.ts')).exportFiles,
  },
  {
    usage: 'superset [url]',
    description: 'Create or update the connection, datasets and a dashboard for each pipeline in a running Superset.',
    options: [
      option('--connection <name>', 'name of the connection in Superset; another one has dashboards of its own', 'Millrace'),
    ],
    examples: ['millrace superset https://superset.example.com', 'millrace superset http://localhost:8088 --json'],
    load: async () => (await import('./bi-commands.ts')).superset,
  },
  {
    usage: 'mcp',
    description:
      'Long-running: metrics for assistants (Model Context Protocol) over standard input and output; reads bi, writes nothing.',
    options: [
      option('--http', "serve over HTTP instead, at /mcp, behind the page's token"),
      option('--port <port>', `port of --http; 0: any free one (default ${mcpPort})`),
    ],
    examples: ['millrace mcp', 'millrace mcp --http --port 7434'],
    load: async () => (await import('./bi-commands.ts')).mcp,
  },
  {
    usage: 'describe',
    description: 'List the datasets the service offers this key.',
    options: [account],
    examples: ['millrace describe'],
    load: async () => (await import('./offered-commands.ts')).describe,
  },
  {
    usage: 'capabilities',
    description: 'List the values (such as countries) and dates the service offers this key.',
    options: [account],
    examples: ['millrace capabilities'],
    load: async () => (await import('./offered-commands.ts')).capabilities,
  },
  {
    usage: 'quota',
    description:
      'Credits left at the service; credits spent, reserved and forecast for the month, by account, pipeline and tag; credits for values since removed from the lists.',
    options: [
      account,
      option('--month <month>', 'another month than this one, such as 2026-01'),
      option('--by <name>', 'also by the values of one dimension, such as domain; shares of a report add up to its price'),
    ],
    examples: ['millrace quota', 'millrace quota --month 2026-01 --by domain --json'],
    load: async () => (await import('./offered-commands.ts')).quota,
  },
  {
    usage: 'new <dataset|migration> <name>',
    description:
      'Write the YAML of a dataset, filled from what the service describes; then the migration that creates its table, or adds what it lacks.',
    options: [
      option('--source <source>', 'the source a dataset reads; by default the one that offers many datasets'),
      option('--table <table>', 'name of the dataset at the service, if it differs from NAME'),
      option('--account <name>', 'account whose key is used', 'default'),
      option('--offline', 'do not ask the service; leave its columns to fill in'),
    ],
    examples: ['millrace new dataset traffic_sources', 'millrace new migration traffic_sources'],
    load: async () => (await import('./dataset-commands.ts')).newFiles,
  },
  {
    usage: 'init [folder]',
    description:
      'Write a repository of your own: pipelines, settings, compose file, systemd units, Kubernetes manifests, CI example.',
    options: [
      option('--domains <list>', 'domains to follow, separated by commas, in place of the examples'),
      option('--countries <list>', 'countries to follow: us,gb, or world'),
    ],
    examples: ['millrace init my-warehouse', 'millrace init my-warehouse --domains a.com,b.com --countries us,gb'],
    load: async () => (await import('./init.ts')).init,
  },
  {
    usage: 'completion <bash|zsh|fish> [words...]',
    description: 'Print the script that lets the Tab key complete commands, options and pipelines in your shell.',
    examples: [
      'millrace completion bash >> ~/.bashrc',
      'millrace completion zsh >> ~/.zshrc',
      'millrace completion fish | source',
    ],
    load: async () => (await import('./completion.ts')).completion,
  },
  {
    usage: 'sandbox',
    description: 'The service itself, locally, with synthetic data and switchable faults.',
    options: [
      option('--port <port>', 'port on 127.0.0.1; 0: any free one (default 8080)'),
      option('--key <key>', 'the API key it accepts (default sandbox-key; with --like vendor: vendor-key)'),
      option('--seed <number>', 'another seed gives other data (default 1)'),
      option('--keywords <rows>', 'keywords of a domain, country and month (default 400)'),
      option(
        '--now <date>',
        "today's date, which decides what is published; in code also a function that returns milliseconds; null: the real clock",
      ),
      option('--restate <months>', 'months that answer with restated values: 2026-01,2026-02'),
      option('--hostile', 'values at the edge: integers beyond 2^53, 40 digits, fractions for integers'),
      option('--no-extensions', 'without endpoints, parameters, fields and limits that the service itself does not have'),
      option(
        '--like <service>',
        "own: this sandbox (default); vendor: prices, limits and refusals as the service's documentation has them",
        undefined,
        ['own', 'vendor'],
      ),
      option('--options <json>', 'any option by its name, as JSON or as a file with JSON; with --like vendor, its options'),
    ],
    examples: ['millrace sandbox --port 8080', 'millrace sandbox --restate 2026-01'],
    load: async () => (await import('./demo.ts')).sandboxCommand,
  },
  {
    usage: 'demo',
    description: 'Sandbox, embedded PostgreSQL, migrations and three months of every pipeline; shows the rows.',
    options: [option('--keep', 'leave the sandbox and the database running until Ctrl-C')],
    examples: ['millrace demo', 'millrace demo --keep'],
    load: async () => (await import('./demo.ts')).demo,
  },
]
