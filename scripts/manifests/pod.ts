// What every pod of ours promises about rights, limits and its end.
import { z } from 'zod'

const context = z.looseObject({}).default({})
const container = z.looseObject({
  name: z.string(),
  image: z.string().default(''),
  securityContext: context,
  resources: z.looseObject({ limits: z.record(z.string(), z.unknown()).default({}) }).default({ limits: {} }),
})
const pod = z.looseObject({
  securityContext: context,
  automountServiceAccountToken: z.boolean().default(true),
  terminationGracePeriodSeconds: z.number().default(30),
  containers: z.array(container),
})
const holder = z.looseObject({ spec: z.looseObject({ template: z.looseObject({ spec: pod }) }) })
const jobHolder = z.looseObject({ spec: z.looseObject({ jobTemplate: holder }) })

/** Broken promises of the manifest's pods; none for a manifest without pods. */
export const podPromises = (manifest: unknown): string[] => {
  const job = jobHolder.safeParse(manifest)
  const direct = holder.safeParse(job.success ? job.data.spec.jobTemplate : manifest)
  if (!direct.success) return []
  const { securityContext, automountServiceAccountToken, terminationGracePeriodSeconds, containers } =
    direct.data.spec.template.spec
  const wanted: [boolean, string][] = [
    [
      securityContext['runAsNonRoot'] === true && Number(securityContext['runAsUser']) > 0,
      'its pod does not say runAsNonRoot and runAsUser',
    ],
    [type(securityContext['seccompProfile']) === 'RuntimeDefault', 'its pod has no seccompProfile RuntimeDefault'],
    [!automountServiceAccountToken, 'its pod gets a token of the cluster (automountServiceAccountToken: false)'],
    [terminationGracePeriodSeconds >= 60, 'its pod has less than 60 s to end'],
    ...containers.flatMap(containerPromises),
  ]
  return wanted.filter(([kept]) => !kept).map(([, problem]) => `${problem}.`)
}

const type = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && 'type' in value ? value.type : undefined

const containerPromises = ({ name, image, securityContext, resources }: z.infer<typeof container>): [boolean, string][] => [
  [securityContext['readOnlyRootFilesystem'] === true, `container ${name} may write its file system (readOnlyRootFilesystem)`],
  [securityContext['allowPrivilegeEscalation'] === false, `container ${name} may gain rights (allowPrivilegeEscalation)`],
  [JSON.stringify(securityContext['capabilities']) === '{"drop":["ALL"]}', `container ${name} keeps capabilities (drop: [ALL])`],
  [resources.limits['memory'] !== undefined, `container ${name} has no limit of memory`],
  [/[:@]/.test(image), `container ${name} names no version of its image`],
]
