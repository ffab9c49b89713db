// The Dockerfiles, Kubernetes manifests and systemd units we hand out pass their lint, and the lint finds what is broken in them.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { lintDockerfile } from '../../scripts/manifests/dockerfile.ts'
import { lintKubernetes } from '../../scripts/manifests/kubernetes.ts'
import { hasSystemd, lintUnits } from '../../scripts/manifests/systemd.ts'

const root = resolve(import.meta.dirname, '..', '..')
const template = (path: string): string =>
  readFileSync(join(root, 'templates', 'warehouse', path), 'utf8').replaceAll('{{name}}', 'my-warehouse')

/** Throws where there is nothing to break any more, so that no case goes stale. */
const broken = (text: string, from: string | RegExp, to: string): string => {
  const changed = text.replace(from, to)
  if (changed === text) throw new Error(`the file has no ${from}`)
  return changed
}

const images = { Dockerfile: readFileSync(join(root, 'Dockerfile'), 'utf8'), template: template('Dockerfile') }

describe('a Dockerfile', () => {
  test('of a warehouse takes along a packed Millrace that lies beside package.json', () => {
    expect(images.template).toMatch(/^COPY package\.json [^\n]*\*\.tgz \.\/$[\s\S]*^RUN npm install/m)
  })

  test.for(Object.entries(images))('%s has no problem', ([name, text]) => {
    expect(lintDockerfile(name, text)).toEqual([])
  })

  test.for<[string | RegExp, string, RegExp]>([
    ['USER 1000:1000', 'USER root', /runs as root/],
    ['USER 1000:1000\n', '', /runs as root/],
    ['USER 1000:1000', 'USERR 1000', /Unknown instruction: USERR/],
    ['--interval=30s', '--intervall=30s', /Unknown flag: intervall/],
    [/HEALTHCHECK .*/, '', /no HEALTHCHECK/],
    [/CMD \["schedule"\]/, 'CMD schedule', /CMD runs in a shell/],
    [/ENTRYPOINT \[.*/, 'ENTRYPOINT node millrace.js', /ENTRYPOINT runs in a shell/],
    [/FROM \$\{NODE_IMAGE\}\n/, 'FROM node\n', /names no version/],
    [/FROM \$\{NODE_IMAGE\}\n/, 'FROM node:latest\n', /names no version/],
    ['COPY --from', 'COPY --form', /Unknown flag: form/],
    [/COPY --from=\S+ \S+ /, 'ADD https://example.com/node_modules.tar ', /use COPY/],
  ])('is refused with %s > %s', ([from, to, problem]) => {
    for (const text of Object.values(images))
      expect(lintDockerfile('Dockerfile', broken(text, from, to)).join('\n')).toMatch(problem)
  })
})

describe('Kubernetes manifests', () => {
  const files = ['migrate', 'schedule', 'worker', 'cronjob', 'home'].map((name) => ({
    name: `${name}.yaml`,
    text: template(`deploy/kubernetes/${name}.yaml`),
  }))
  const text = (name: string): string => files.find((file) => file.name === `${name}.yaml`)?.text ?? ''
  const breaks: [string, string | RegExp, string, RegExp][] = [
    ['schedule', 'replicas: 1', 'replica: 1', /'replica' does not exist/],
    ['schedule', 'replicas: 1', 'replicas: one', /spec\/replicas must be integer/],
    ['schedule', 'containerPort: 7433', 'containerPort: "7433"', /containerPort must be integer/],
    ['schedule', 'livenessProbe', 'livenesProbe', /'livenesProbe' does not exist/],
    ['schedule', 'kind: Deployment', 'kind: Deploymint', /no Deploymint in apps\/v1/],
    ['schedule', 'apiVersion: apps/v1', 'apiVersion: apps/v1beta1', /no Deployment in apps\/v1beta1/],
    ['schedule', 'runAsNonRoot: true', 'runAsNonRoot: false', /runAsNonRoot/],
    ['schedule', 'runAsUser: 1000', 'runAsUser: 0', /runAsNonRoot/],
    ['worker', 'readOnlyRootFilesystem: true', 'readOnlyRootFilesystem: false', /may write its file system/],
    ['worker', 'allowPrivilegeEscalation: false', 'allowPrivilegeEscalation: true', /may gain rights/],
    ['worker', 'drop: [ALL]', 'drop: [NET_RAW]', /keeps capabilities/],
    ['worker', 'seccompProfile: { type: RuntimeDefault }', 'seccompProfile: { type: Unconfined }', /seccompProfile/],
    ['worker', 'automountServiceAccountToken: false', 'automountServiceAccountToken: true', /token of the cluster/],
    ['worker', 'terminationGracePeriodSeconds: 90', 'terminationGracePeriodSeconds: 5', /less than 60 s/],
    ['worker', 'limits: { memory: 512Mi }', 'limits: {}', /no limit of memory/],
    ['worker', 'my-warehouse:latest', 'my-warehouse', /no version of its image/],
    ['worker', 'replicas: 2', 'replicas: 2\n  replicas: 3', /keys must be unique/],
    ['worker', 'args: ["worker"]', 'args: ["worker"', /sequence|collection/],
    ['cronjob', 'concurrencyPolicy: Forbid', 'concurrencyPolicy: Never', /concurrencyPolicy/],
    ['cronjob', 'timeZone:', 'timezone:', /timezone/],
    ['cronjob', 'readOnlyRootFilesystem: true', 'readOnlyRootFilesystem: false', /may write its file system/],
    ['migrate', 'restartPolicy: Never', 'restartPolcy: Never', /'restartPolcy' does not exist/],
    ['migrate', 'runAsNonRoot: true', 'runAsNonRoot: false', /runAsNonRoot/],
    ['home', 'accessModes: [ReadWriteMany]', 'accessModes: ReadWriteMany', /accessModes must be array/],
  ]

  test('we hand out have no problem', () => {
    expect(lintKubernetes(files)).toEqual([])
  })

  test('are refused when broken, each by what is wrong in it', () => {
    const problems = lintKubernetes(
      breaks.map(([name, from, to], index) => ({ name: `broken-${index}.yaml`, text: broken(text(name), from, to) })),
    )
    for (const [index, [, from, to, problem]] of breaks.entries()) {
      const mine = problems.filter((line) => line.startsWith(`broken-${index}.yaml`)).join('\n')
      expect(mine, `${from} > ${to}`).toMatch(problem)
    }
  })
})

describe.skipIf(!hasSystemd())('systemd units', () => {
  const names = ['millrace.service', 'millrace-run.service', 'millrace-run.timer']
  const units = names.map((name) => ({ name, text: template(`deploy/systemd/${name}`) }))
  const [service] = units

  test('we hand out have no problem', () => {
    expect(lintUnits(units)).toEqual([])
  })

  test.for([
    ['KillSignal=SIGTERM', 'KillSignal=SIGTREM'],
    ['ProtectSystem=strict', 'ProtectSystm=strict'],
    ['Type=exec', 'Type=exek'],
    ['TimeoutStopSec=90', 'TimeoutStopSec=soon'],
    [/ExecStart=.*/, 'ExecStart=millrace/schedule'],
    [/NoNewPrivileges=true[^[]*(?=\n\[)/, ''],
  ] as [string | RegExp, string][])('are refused with %s > %s', ([from, to]) => {
    expect(lintUnits([{ name: 'millrace.service', text: broken(service?.text ?? '', from, to) }])).not.toEqual([])
  })

  test('are refused with a time that never comes', () => {
    const [, run, timer] = units
    const never = broken(timer?.text ?? '', /OnCalendar=.*/, 'OnCalendar=*-*-* 26:30:00')
    expect(
      lintUnits([
        { name: 'millrace-run.service', text: run?.text ?? '' },
        { name: 'millrace-run.timer', text: never },
      ]),
    ).not.toEqual([])
  })
})
