// The Kubernetes objects of an instance whose store is a PostgreSQL database. A pure function of its input: equal input gives
// equal text. No setting of the operator is in these objects; Secrets hold them. See docs/decisions.md#kubernetes.
import { hash } from 'node:crypto'
import type { Deployment, StatefulSet } from 'kubernetes-types/apps/v1.js'
import type {
  Container,
  EnvVar,
  HTTPGetAction,
  PodSpec,
  PodTemplateSpec,
  ResourceRequirements,
  SecurityContext,
  Service,
  TopologySpreadConstraint,
  Volume,
  VolumeMount,
} from 'kubernetes-types/core/v1.js'
import type { LabelSelector, ObjectMeta } from 'kubernetes-types/meta/v1.js'
import type {
  NetworkPolicy,
  NetworkPolicyEgressRule,
  NetworkPolicyIngressRule,
  NetworkPolicyPort,
} from 'kubernetes-types/networking/v1.js'
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js'
import { DAEMON_NAMES, type DaemonName } from '../daemons/settings.ts'
import { trimLeading, trimTrailing } from '../lib/text/trimming.ts'
import { DAEMON_NEEDS, MOUNTED_DIRECTORIES, mountsOf, needsSetting } from './daemon-needs.ts'

/** Daemons that need no files: any number of them runs on any node. */
export const REPLICATED = { proxyd: 2, webd: 2, authd: 2, timed: 1 } as const satisfies Partial<
  Record<DaemonName, number>
>

/**
 * Daemons that share the files of the instance, as containers of one pod. Its proxyd serves published pages, and its webd takes and
 * sends files of chats.
 */
export const WITH_FILES = [
  'proxyd',
  'webd',
  'routd',
  'gated',
  'runed',
  'onbod',
  'dashd',
] as const satisfies readonly DaemonName[]

/** Names of the pods: a replicated daemon, or the pod with the files. */
const FILES = 'files'
type PodName = keyof typeof REPLICATED | typeof FILES

export interface KubernetesInput {
  readonly instance: string
  readonly image: string
  /** Of the daemons and of the files. */
  readonly uid: number
  /** Of the database server. */
  readonly databasePort: number
  /** Of the OpenTelemetry collector; absent if traces are not exported. */
  readonly collectorPort?: number | undefined
  /** Whether agents run in bubblewrap cells, which need a user namespace for the pod. */
  readonly hasCells: boolean
  /** Of the volume with workspaces and pages, such as 20Gi. */
  readonly filesSize: string
  /** By Secret, a digest of its content: a new one restarts the pods that mount it. */
  readonly digests: ReadonlyMap<string, string>
}

export type KubernetesObject = Deployment | StatefulSet | Service | NetworkPolicy | PodDisruptionBudget

/** Every daemon has its own port, because those of one pod share an address. */
const portOf = (daemon: DaemonName): number => 8080 + DAEMON_NAMES.indexOf(daemon)
/** Of every Service. */
const SERVICE_PORT = 8080
const DATA_ROOT = '/data'

/**
 * Common part of the names of an instance's objects. Kubernetes allows lower-case letters, digits and dashes. Another name gets
 * a suffix of its own, so that A_b and a-b stay apart. The longest name has 52 letters, the limit of a StatefulSet.
 */
export function kubernetesName(instance: string): string {
  const plain = trimLeading(trimTrailing(instance.toLowerCase().replaceAll('_', '-'), '-'), '-')
  if (plain === instance) return `svc-${instance}`
  return `svc-${[plain.slice(0, 24), hash('sha256', instance, 'hex').slice(0, 8)].filter(Boolean).join('-')}`
}

/** Of the Secret with the settings of a daemon, or of the commands that prepare the files. */
export function secretName(instance: string, of: DaemonName | typeof SETUP): string {
  return `${kubernetesName(instance)}-${of}`
}

/** The container that creates the directories, and the workspace of main. */
export const SETUP = 'setup'

/** The complete front door, with published pages and files of chats. */
const WEB_SERVICE = 'web'

/** All objects except the Secrets, in the order in which they can be created. */
export function kubernetesObjects(input: KubernetesInput): readonly KubernetesObject[] {
  const replicated = Object.keys(REPLICATED).filter(isReplicated)
  return [
    denyAll(input),
    ...[...replicated, FILES as PodName].map((pod) => networkPolicy(input, pod)),
    ...DAEMON_NAMES.map((daemon) => service(input, { name: daemon, daemon, pod: podOf(daemon) })),
    service(input, { name: WEB_SERVICE, daemon: 'proxyd', pod: FILES }),
    ...replicated.map((daemon) => deployment(input, daemon)),
    statefulSet(input),
    ...replicated.filter((daemon) => REPLICATED[daemon] > 1).map((daemon) => disruptionBudget(input, daemon)),
  ]
}

function isReplicated(name: string): name is keyof typeof REPLICATED {
  return Object.hasOwn(REPLICATED, name)
}

function podOf(daemon: DaemonName): PodName {
  return isReplicated(daemon) ? daemon : FILES
}

// --- Names and labels ---

function labelsOf({ instance }: KubernetesInput, pod?: PodName): Record<string, string> {
  return {
    'app.kubernetes.io/name': 'svc',
    'app.kubernetes.io/instance': kubernetesName(instance),
    ...(pod === undefined ? {} : { 'app.kubernetes.io/component': pod }),
  }
}

function metadata(input: KubernetesInput, name: string, pod?: PodName): ObjectMeta {
  return {
    name: `${kubernetesName(input.instance)}-${name}`,
    labels: { ...labelsOf(input, pod), 'app.kubernetes.io/managed-by': 'svc' },
  }
}

const podSelector = (input: KubernetesInput, pod?: PodName): LabelSelector => ({ matchLabels: labelsOf(input, pod) })

// --- Pods ---

function deployment(input: KubernetesInput, daemon: keyof typeof REPLICATED): Deployment {
  const replicas = REPLICATED[daemon]
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: metadata(input, daemon, daemon),
    spec: {
      replicas,
      revisionHistoryLimit: 3,
      selector: podSelector(input, daemon),
      // A new pod is ready before an old one stops.
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      template: podTemplate(input, daemon, {
        ...(replicas > 1 ? { topologySpreadConstraints: [spread(input, daemon)] } : {}),
        containers: [daemonContainer(input, daemon, daemon)],
        volumes: [...secretVolumes(input, [daemon]), SCRATCH, TEMPORARY],
      }),
    },
  }
}

const spread = (input: KubernetesInput, pod: PodName): TopologySpreadConstraint => ({
  maxSkew: 1,
  topologyKey: 'kubernetes.io/hostname',
  whenUnsatisfiable: 'ScheduleAnyway',
  labelSelector: podSelector(input, pod),
})

/** One pod: its volume is mounted on one node, and one process at a time serves the tool sockets. */
function statefulSet(input: KubernetesInput): StatefulSet {
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: metadata(input, FILES, FILES),
    spec: {
      replicas: 1,
      revisionHistoryLimit: 3,
      serviceName: `${kubernetesName(input.instance)}-routd`,
      selector: podSelector(input, FILES),
      template: podTemplate(input, FILES, {
        // Root of the pod is an ordinary user on the node. The mounts of cells need it, too.
        ...(input.hasCells ? { hostUsers: false } : {}),
        initContainers: [setupContainer(input)],
        containers: WITH_FILES.map((daemon) => daemonContainer(input, FILES, daemon)),
        volumes: [...secretVolumes(input, [...WITH_FILES, SETUP]), SCRATCH, TEMPORARY],
      }),
      // Deleting the StatefulSet keeps the workspaces.
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Retain', whenScaled: 'Retain' },
      volumeClaimTemplates: [
        {
          apiVersion: 'v1',
          kind: 'PersistentVolumeClaim',
          metadata: { name: 'data', labels: labelsOf(input, FILES) },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: input.filesSize } } },
        },
      ],
    },
  }
}

/** The data directory of each daemon, below the directories that it shares. */
const SCRATCH: Volume = { name: 'scratch', emptyDir: { sizeLimit: '1Gi' } }
const TEMPORARY: Volume = { name: 'tmp', emptyDir: { sizeLimit: '1Gi' } }

function podTemplate(input: KubernetesInput, pod: PodName, spec: Omit<PodSpec, 'securityContext'>): PodTemplateSpec {
  const { digests, instance, uid } = input
  const secrets = pod === FILES ? ([...WITH_FILES, SETUP] as const) : [pod]
  const settings = secrets.map((of) => digests.get(secretName(instance, of)) ?? '').join(' ')
  return {
    metadata: {
      labels: labelsOf(input, pod),
      annotations: { 'svc/settings': hash('sha256', settings, 'hex').slice(0, 16) },
    },
    spec: {
      // Daemons never call the API of Kubernetes.
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: uid,
        runAsGroup: uid,
        fsGroup: uid,
        fsGroupChangePolicy: 'OnRootMismatch',
        seccompProfile: { type: 'RuntimeDefault' },
      },
      // A daemon finishes its requests, and runed its turns.
      terminationGracePeriodSeconds: pod === FILES ? 90 : 45,
      ...spec,
    },
  }
}

const CONFINED: SecurityContext = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
}

/**
 * For bubblewrap, which makes namespaces and mounts a /proc of its own. The default profiles of seccomp and AppArmor forbid both,
 * and a masked /proc cannot be mounted again. All of it stays inside the pod's user namespace; agents have a filter of their own.
 */
const CELLS: SecurityContext = {
  ...CONFINED,
  procMount: 'Unmasked',
  seccompProfile: { type: 'Unconfined' },
  appArmorProfile: { type: 'Unconfined' },
}

const ENVIRONMENT: readonly EnvVar[] = [
  { name: 'SVC_DATA_DIR', value: DATA_ROOT },
  { name: 'HOME', value: '/tmp' },
]

const dataDirectory = ({ instance }: KubernetesInput): string => `${DATA_ROOT}/svc_${instance}`

/** Operators type commands in the pod with the files. */
function commandInPod({ instance }: KubernetesInput): string {
  const name = kubernetesName(instance)
  return `kubectl -n ${name} exec -it ${name}-${FILES}-0 -c gated -- svc`
}

function daemonContainer(input: KubernetesInput, pod: PodName, daemon: DaemonName): Container {
  const { instance, image, hasCells } = input
  const http = (path: string): HTTPGetAction => ({ path, port: daemon })
  return {
    name: daemon,
    image,
    command: ['svc'],
    args: ['serve', instance, daemon],
    env: [
      ...ENVIRONMENT,
      { name: 'SVC_COMMAND', value: commandInPod(input) },
      { name: `${daemon.toUpperCase()}_LISTEN`, value: `0.0.0.0:${portOf(daemon)}` },
      // All daemons that send to adapters are in its pod.
      ...(daemon === 'routd' ? [{ name: 'ADAPTER_HOST', value: '127.0.0.1' }] : []),
      ...DAEMON_NEEDS[daemon].peers.map(
        (peer): EnvVar => ({
          name: `${peer.toUpperCase()}_URL`,
          // Not every cluster lets a pod reach itself through a Service.
          value: daemonsOf(pod).includes(peer)
            ? `http://127.0.0.1:${portOf(peer)}`
            : `http://${kubernetesName(instance)}-${peer}:${SERVICE_PORT}`,
        }),
      ),
    ],
    ports: [{ name: daemon, containerPort: portOf(daemon) }],
    volumeMounts: [
      { name: 'scratch', mountPath: dataDirectory(input), subPath: daemon },
      ...(pod === FILES ? fileMounts(input, daemon) : []),
      settingsMount(input, daemon),
      { name: 'tmp', mountPath: '/tmp', subPath: daemon },
    ],
    // The first start of a new version may migrate a large store.
    startupProbe: { httpGet: http('/livez'), periodSeconds: 2, failureThreshold: 900 },
    // Does not ask the store: a restart cures no outage of the database.
    livenessProbe: { httpGet: http('/livez'), periodSeconds: 15, timeoutSeconds: 5, failureThreshold: 4 },
    readinessProbe: { httpGet: http('/health'), periodSeconds: 5, timeoutSeconds: 5 },
    // Services send requests to a pod for some seconds after it was told to stop.
    lifecycle: { preStop: { exec: { command: ['sleep', '5'] } } },
    resources: RESOURCES[daemon],
    securityContext: daemon === 'runed' && hasCells ? CELLS : CONFINED,
  }
}

const SMALL: ResourceRequirements = { requests: { cpu: '50m', memory: '96Mi' }, limits: { memory: '512Mi' } }
const MEDIUM: ResourceRequirements = { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '1Gi' } }

const RESOURCES: Readonly<Record<DaemonName, ResourceRequirements>> = {
  proxyd: MEDIUM,
  // The adapters of accounts are processes of this container.
  routd: { requests: { cpu: '100m', memory: '256Mi' }, limits: { memory: '2Gi' } },
  webd: MEDIUM,
  gated: SMALL,
  // Agents are processes of this container; AGENT_MAX_MEMORY and MAX_CONCURRENT_TURNS limit them.
  runed: { requests: { cpu: '250m', memory: '512Mi' } },
  authd: SMALL,
  onbod: SMALL,
  timed: SMALL,
  dashd: SMALL,
}

/** Creates the workspace of main if it is missing, and the directories: those that kubelet creates belong to root. */
function setupContainer(input: KubernetesInput): Container {
  const { instance, image } = input
  const script = [
    'set -e',
    'svc create "$0" >/dev/null',
    `cd ${DATA_ROOT}/svc_"$0"`,
    `mkdir -p -m 700 ${MOUNTED_DIRECTORIES.filter((name) => name !== 'web').join(' ')}`,
    'mkdir -p -m 755 web',
  ].join('; ')
  return {
    name: SETUP,
    image,
    command: ['sh', '-c', script, instance],
    env: [...ENVIRONMENT],
    volumeMounts: [
      { name: 'data', mountPath: dataDirectory(input) },
      settingsMount(input, SETUP),
      { name: 'tmp', mountPath: '/tmp', subPath: SETUP },
    ],
    resources: SMALL,
    securityContext: CONFINED,
  }
}

/** Only the directories that the daemon needs. */
function fileMounts(input: KubernetesInput, daemon: DaemonName): VolumeMount[] {
  return mountsOf(daemon, true).map(
    ([name, mode]): VolumeMount => ({
      name: 'data',
      mountPath: `${dataDirectory(input)}/${name}`,
      subPath: name,
      ...(mode === 'ro' ? { readOnly: true } : {}),
    }),
  )
}

type SecretOwner = DaemonName | typeof SETUP

function settingsMount(input: KubernetesInput, of: SecretOwner): VolumeMount {
  return { name: `settings-${of}`, mountPath: `${dataDirectory(input)}/.env`, subPath: '.env', readOnly: true }
}

function secretVolumes({ instance }: KubernetesInput, owners: readonly SecretOwner[]): Volume[] {
  return owners.map(
    (of): Volume => ({
      name: `settings-${of}`,
      secret: { secretName: secretName(instance, of), defaultMode: 0o440 },
    }),
  )
}

// --- Network ---

interface ServiceOptions {
  readonly name: string
  readonly daemon: DaemonName
  readonly pod: PodName
}

function service(input: KubernetesInput, { name, daemon, pod }: ServiceOptions): Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadata(input, name, pod),
    spec: {
      type: 'ClusterIP',
      selector: labelsOf(input, pod),
      ports: [{ name: 'http', port: SERVICE_PORT, targetPort: daemon, appProtocol: 'http' }],
    },
  }
}

/** Of this instance only: other pods of the namespace are not ours. */
function denyAll(input: KubernetesInput): NetworkPolicy {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadata(input, 'deny'),
    spec: { podSelector: podSelector(input), policyTypes: ['Ingress', 'Egress'] },
  }
}

const tcp = (port: number): NetworkPolicyPort => ({ protocol: 'TCP', port })

function daemonsOf(pod: PodName): readonly DaemonName[] {
  return pod === FILES ? WITH_FILES : [pod]
}

/** Daemons that the containers of a pod call in other pods. */
function calledBy(pod: PodName): readonly DaemonName[] {
  const peers = daemonsOf(pod).flatMap((daemon) => DAEMON_NEEDS[daemon].peers)
  return [...new Set(peers)].filter((peer) => !daemonsOf(pod).includes(peer))
}

function networkPolicy(input: KubernetesInput, pod: PodName): NetworkPolicy {
  const own = daemonsOf(pod)
  const pods: PodName[] = [...Object.keys(REPLICATED).filter(isReplicated), FILES]
  // By port of the pod, not of the Service.
  const ports = (daemons: readonly DaemonName[]) => daemons.map((daemon) => tcp(portOf(daemon)))
  const incoming = pods.flatMap((from): NetworkPolicyIngressRule[] => {
    const called = calledBy(from).filter((peer) => podOf(peer) === pod)
    return called.length === 0 ? [] : [{ from: [{ podSelector: podSelector(input, from) }], ports: ports(called) }]
  })
  const outgoing = pods.flatMap((to): NetworkPolicyEgressRule[] => {
    const called = calledBy(pod).filter((peer) => podOf(peer) === to)
    return called.length === 0 ? [] : [{ to: [{ podSelector: podSelector(input, to) }], ports: ports(called) }]
  })
  // The front doors are public, and the address of an ingress controller is not known here.
  const isFront = own.includes('proxyd')
  const { collectorPort } = input
  const isTraced = own.some((daemon) => needsSetting(daemon, 'OTEL_EXPORTER_OTLP_ENDPOINT'))
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: metadata(input, pod, pod),
    spec: {
      podSelector: podSelector(input, pod),
      policyTypes: ['Ingress', 'Egress'],
      ingress: [...(isFront ? [{ ports: ports(['proxyd']) }] : []), ...incoming],
      egress: [
        NAMES,
        // Anywhere: a policy cannot name a host, and the address of a database may change.
        { ports: [tcp(input.databasePort)] },
        ...outgoing,
        ...(collectorPort !== undefined && isTraced ? [{ ports: [tcp(collectorPort)] }] : []),
        ...(own.some((daemon) => DAEMON_NEEDS[daemon].isOutbound) ? [OUTSIDE] : []),
      ],
    },
  }
}

/** Name servers of the cluster, and the cache that some clusters have on each node. */
const NAMES: NetworkPolicyEgressRule = {
  to: [
    { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } },
    { ipBlock: { cidr: '169.254.20.10/32' } },
  ],
  ports: [tcp(53), { protocol: 'UDP', port: 53 }],
}

/** The internet, but neither the cluster nor metadata services: see docs/kubernetes.md for a model inside the cluster. */
const OUTSIDE: NetworkPolicyEgressRule = {
  to: [
    {
      ipBlock: {
        cidr: '0.0.0.0/0',
        except: ['10.0.0.0/8', '100.64.0.0/10', '169.254.0.0/16', '172.16.0.0/12', '192.168.0.0/16'],
      },
    },
    { ipBlock: { cidr: '::/0', except: ['fc00::/7', 'fe80::/10'] } },
  ],
}

/** Draining a node stops one pod at a time. The pod with the files has no second one to wait for. */
function disruptionBudget(input: KubernetesInput, pod: PodName): PodDisruptionBudget {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: metadata(input, pod, pod),
    spec: { maxUnavailable: 1, selector: podSelector(input, pod) },
  }
}
