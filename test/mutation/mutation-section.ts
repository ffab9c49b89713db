// The figures of a mutation check as a section of docs/internals/reliability.md: a row a run, named after the files it was over.
export interface MutationFigures {
  /** How many were tried, at most. */
  readonly sample: number
  readonly seed: number
  /** `--only`; empty: all files. */
  readonly only: string
  /** `--first` */
  readonly isFirst: boolean
  readonly files: readonly string[]
  /** Mutants there are of these files. */
  readonly mutants: number
  readonly tried: number
  readonly noticed: number
}

const opening = `\`node test/mutation/run.ts\` plants one small mistake (a mutant) after the other in the ledger (\`src/ledger\`: claims, holders, runs, planning, purchases, pointers), the packing
(\`src/plan\`), the loads (\`src/load\`, \`src/run/load*\`), the report steps (\`src/extract/report*\`) and the settling and splitting of jobs
(\`src/run/settle*\`), runs the tests concerned (\`test/mutation/targets.ts\`), and fails under 90 % noticed. Mistakes in
TypeScript: comparisons, connectives, conditions set to true and false, statements, throws, query clauses and written columns left out. In SQL: comparisons, \`and\` and
\`or\`, each conjunct and each assignment left out, \`exists\`, \`is null\`, joins, orders, locks. The syntax tree is \`@babel/parser\`'s. Not planted: changes of messages,
of \`updated_at\`, \`finished_at\` and \`created_at\`, and of defaults that only the types ask for (\`?? 0\`).

Why the tool is our own, and which mutants need no test: [how the figures came about](decisions/0012-what-fault-injection-found.md). To repeat it,
use the flags shown; \`--first\` runs the direct tests alone, and \`--write\` renews the row.

| code | mutants there are | tried | noticed | flags |
| --- | --- | --- | --- | --- |`

/** `end-claim`, `windows` ...; of many only how many. */
const nameOf = ({ files }: MutationFigures): string =>
  files.length > 12 ? `${files.length} files` : files.map((file) => file.replace(/^.*\//, '').replace('.ts', '')).join(', ')

const rowOf = (figures: MutationFigures): string => {
  const { sample, seed, only, isFirst, mutants, tried, noticed } = figures
  const flags = `${only === '' ? '' : `--only ${only} `}--sample ${sample} --seed ${seed}${isFirst ? ' --first' : ''}`
  return `| ${nameOf(figures)} | ${mutants} | ${tried} | ${noticed} (${((100 * noticed) / tried).toFixed(1)} %) | ${flags} |`
}

/** @param former the section as it stands: its rows of other files stay. */
export const mutationSection = (figures: MutationFigures, former: string): string => {
  const kept = former.split('\n').filter((line) => /^\| (?!code|---)/.test(line) && !line.startsWith(`| ${nameOf(figures)} |`))
  return [opening, ...[...kept, rowOf(figures)].sort()].join('\n')
}
