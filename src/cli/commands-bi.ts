// The commands that bring `bi` to people and programs: documents, files, dashboards, assistants.
import { type CommandSpec, mcpPort, option } from './command-spec.ts'

const only = option('--only <list>', 'only these slices: domain=a.com,b.com (repeat with ; for another dimension)')

/** In the order of `--help`. */
export const biCommands: readonly CommandSpec[] = [
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
      option('--since <last>', 'last: write only the months that changed since the last export to this place'),
      only,
      option('--from <month>', 'first month, such as 2026-01'),
      option('--to <month>', 'last month'),
    ],
    examples: [
      'millrace export keyword_month_over_month --out changes.csv',
      'millrace export keywords --format parquet --only domain=a.com --from 2026-01',
      'millrace export keywords --by month --since last --out s3://lake/keywords',
    ],
    load: async () => (await import('./export.ts')).exportFiles,
  },
  {
    usage: 'superset [url]',
    description: 'Create or update the connection, datasets and a dashboard for each pipeline in a running Superset.',
    options: [
      option('--connection <name>', 'name of the connection in Superset; another one has dashboards of its own', 'Millrace'),
    ],
    examples: ['millrace superset https://superset.example.com', 'millrace superset http://localhost:8088 --json'],
    load: async () => (await import('./superset.ts')).superset,
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
    load: async () => (await import('./mcp.ts')).mcp,
  },
]
