// What tests need that not every machine has, and how to get it: shown at the end of a run where it kept tests from running.

interface Want {
  /** Files whose skipped tests lack it. */
  readonly file: RegExp
  /** Names of tests, where a file wants several things. */
  readonly name?: RegExp
  readonly lacks: string
  readonly get: string
}

const clients = '`bash test/clients/prepare.sh DIR`, then `set -a; . DIR/environment`'

export const wants: readonly Want[] = [
  { file: /browser\/status-page/, lacks: 'Chromium', get: '`apt-get install chromium`' },
  { file: /contract\/manifests/, lacks: 'systemd-analyze', get: '`apt-get install systemd`' },
  { file: /image\/image/, lacks: 'Docker', get: 'a Docker engine that answers `docker info`' },
  { file: /db\/export-months/, lacks: 'DuckDB and pyarrow', get: clients },
  { file: /unit\/semantic\/data-contract|e2e\/traces/, lacks: 'the schemas of data contracts and lineage', get: clients },
  { file: /db\/power-cut/, lacks: 'strace', get: '`apt-get install strace`' },
  { file: /db\/embedded/, lacks: 'root', get: 'run the tests as root' },
  {
    file: /e2e\/(?:backup|servers)|db\/load-beside/,
    lacks: 'an installed PostgreSQL',
    get: '`apt-get install postgresql-15`, or any from 15 on',
  },
  { file: /e2e\/analysts/, name: /Superset/, lacks: 'Superset', get: '`bash test/clients/superset.sh`' },
  { file: /e2e\/analysts/, lacks: 'other database clients', get: clients },
  { file: /e2e\/(?:semantic|successor)/, lacks: 'dbt', get: '`bash test/clients/dbt.sh`' },
  { file: /e2e\/guard-word/, lacks: 'the program script', get: '`apt-get install bsdutils`, on Linux' },
  { file: /e2e\/terminal/, name: /zsh/, lacks: 'zsh', get: '`apt-get install zsh`' },
  { file: /e2e\/terminal/, name: /fish/, lacks: 'fish', get: '`apt-get install fish`' },
  { file: /e2e\/terminal/, lacks: 'the program script, or bash', get: '`apt-get install bsdutils bash`' },
  {
    file: /e2e\/disk-full/,
    lacks: 'small disks of its own',
    get: '`MILLRACE_TEST_DISK_FULL=1 npx vitest run test/e2e/disk-full.test.ts` as root on Linux',
  },
  { file: /e2e\/stop-in-time/, lacks: 'Linux', get: 'run the tests on Linux' },
  { file: /e2e\/locks/, lacks: 'PgBouncer', get: '`apt-get install pgbouncer`' },
  {
    file: /e2e\/(?:commands|clumsy|named-files)|outsider\/runbook/,
    lacks: 'the right to mount',
    get: 'run the tests as root on Linux',
  },
]

/** A test that was not run. */
export interface Skipped {
  readonly file: string
  readonly name: string
}

/** `3 tests lack Chromium: …`, a line for each thing, in the order of the table. */
export const wantedLines = (skipped: readonly Skipped[]): readonly string[] => {
  const counts = new Map<Want | null, number>()
  for (const { file, name } of skipped) {
    const want = wants.find((one) => one.file.test(file) && (one.name?.test(name) ?? true)) ?? null
    counts.set(want, (counts.get(want) ?? 0) + 1)
  }
  const lines = wants.flatMap((want) => {
    const count = counts.get(want) ?? 0
    return count === 0 ? [] : [`  ${count} lack ${want.lacks}: ${want.get}`]
  })
  const others = counts.get(null) ?? 0
  return others === 0 ? lines : [...lines, `  ${others} for other reasons, which their files name`]
}
