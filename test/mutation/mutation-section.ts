// The figures of a mutation check as a section of docs/reliability.md.

export interface MutationFigures {
  readonly sample: number
  readonly seed: number
  readonly targets: readonly TargetFigures[]
  /** `file:line kind: source`, each. */
  readonly survivors: readonly string[]
}

export interface TargetFigures {
  readonly files: readonly string[]
  readonly mutants: number
  readonly tried: number
  readonly noticed: number
}

const sum = (targets: readonly TargetFigures[], of: (target: TargetFigures) => number): number =>
  targets.reduce((total, target) => total + of(target), 0)

const share = (noticed: number, tried: number): string => (tried === 0 ? '' : ` (${((100 * noticed) / tried).toFixed(1)} %)`)

const row = (name: string, { mutants, tried, noticed }: Omit<TargetFigures, 'files'>): string =>
  `| ${name} | ${mutants} | ${tried} | ${noticed}${share(noticed, tried)} |`

export const mutationSection = ({ sample, seed, targets, survivors }: MutationFigures): string => {
  const all = {
    mutants: sum(targets, ({ mutants }) => mutants),
    tried: sum(targets, ({ tried }) => tried),
    noticed: sum(targets, ({ noticed }) => noticed),
  }
  return `\`npm run mutation -- --sample ${sample} --seed ${seed}\` plants one small mistake after the other in the code below, runs the tests concerned
(\`test/mutation/targets.ts\`), and fails under 90 % noticed. Mistakes in TypeScript: comparisons, connectives, conditions set to true and false, statements, throws,
query clauses and written columns left out. In SQL: comparisons, \`and\` and \`or\`, each conjunct and each assignment left out, \`exists\`, \`is null\`, joins, orders,
locks. The syntax tree is \`@babel/parser\`'s. Not planted: changes of messages, of \`updated_at\`, \`finished_at\` and \`created_at\`, and of defaults that only the
types ask for (\`?? 0\`). The tool is our own: Stryker 10.1.1 stops under TypeScript 7, and has no mistakes for SQL, where most of this code's decisions are.

| code | mutants there are | tried | noticed |
| --- | --- | --- | --- |
${targets.map((target) => row(target.files.map((file) => `\`${file.replace('src/', '').replace('.ts', '')}\``).join(', '), target)).join('\n')}
${row('all', all)}

Not noticed:

${survivors.map((line) => `- \`${line.replaceAll('`', "'")}\``).join('\n')}`
}
