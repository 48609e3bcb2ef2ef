// `svc generate --kubernetes`: writes the manifest of an instance, and the Secrets with its settings into a file of their own.
import { createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Secret } from 'kubernetes-types/core/v1.js'
import { AGENT_USER_SETTINGS } from '../cell/settings.ts'
import { agentUsers } from '../core/agent-user.ts'
import type { Layout } from '../core/layout.ts'
import { readProviderSettings } from '../daemons/provider-settings.ts'
import { ALL_SETTINGS, CONTAINER_SETTINGS, DAEMON_NAMES, type DaemonName } from '../daemons/settings.ts'
import { writeAtomic } from '../lib/files/atomic-file.ts'
import { refuse } from '../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../lib/settings.ts'
import { editDotenv, formatDotenv, parseDotenv } from '../lib/text/dotenv.ts'
import { packageVersion } from '../lib/version.ts'
import { setKeys, unreachableUrls } from './daemon-env.ts'
import { needsSetting } from './daemon-needs.ts'
import { type KubernetesInput, kubernetesName, kubernetesObjects, SETUP, secretName } from './kubernetes.ts'
import { readGenerated, readUnedited, stampText } from './stamped-file.ts'

export interface GenerateKubernetesOptions {
  readonly instance: string
  readonly layout: Layout
  /** The content of .env. */
  readonly entries: ReadonlyMap<string, string>
  /** Overwrites files that were edited by hand. */
  readonly isForced: boolean
  warn(text: string): void
}

export interface GeneratedKubernetes {
  /** Of the namespace that the printed commands use, and the start of the names of all objects. */
  readonly name: string
  readonly manifest: string
  readonly secrets: string
  readonly image: string
  readonly isChanged: boolean
}

export async function generateKubernetes(options: GenerateKubernetesOptions): Promise<GeneratedKubernetes> {
  const { instance, layout } = options
  const plan = planKubernetes(options)
  const [manifest, secrets] = [join(layout.root, 'kubernetes.yml'), join(layout.root, 'kubernetes-secrets.yml')]
  const texts = {
    [manifest]: await stampedYaml(kubernetesObjects(plan.input), MANIFEST_NOTE),
    [secrets]: await stampedYaml(plan.secrets, SECRETS_NOTE),
  }
  const readPrevious = (path: string) => (options.isForced ? readGenerated(path) : readUnedited(path, EDIT_HINT))
  const previous = [await readPrevious(manifest), await readPrevious(secrets)]
  for (const warning of plan.warnings) options.warn(warning)
  // The manifest last: it has the digests of the Secrets.
  await writeAtomic(secrets, texts[secrets] ?? '', 0o600)
  await writeAtomic(manifest, texts[manifest] ?? '', 0o644)
  const isChanged = previous[0] !== texts[manifest] || previous[1] !== texts[secrets]
  return { name: kubernetesName(instance), manifest, secrets, image: plan.input.image, isChanged }
}

/** The text of .env with the keys that pods need; the same text if it has them. `svc create` may be unable to reach the database. */
export function addKubernetesKeys(text: string, { env }: Layout, environment: SettingSource): string {
  const entries = parseDotenv(text, env)
  const missing = ['CHANNEL_SECRET', 'SECRETS_KEY'].filter((key) => !entries.get(key))
  if (missing.length === 0) return text
  const value = (key: string): string => environment.get(key) || randomBytes(32).toString('hex')
  return editDotenv(text, new Map(missing.map((key) => [key, value(key)])))
}

interface KubernetesPlan {
  readonly input: KubernetesInput
  readonly secrets: readonly Secret[]
  readonly warnings: readonly string[]
}

function portOfUrl(text: string | undefined): number | undefined {
  const url = text === undefined ? null : URL.parse(text)
  if (!url) return undefined
  return url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
}

/** Refuses settings that cannot work in a cluster, before anything is written. */
function planKubernetes({ instance, layout, entries }: GenerateKubernetesOptions): KubernetesPlan {
  const source = sourceOf(layout.env, entries)
  readSettings(ALL_SETTINGS, [source])
  readProviderSettings([source])
  const read = readSettings({ ...CONTAINER_SETTINGS, ...AGENT_USER_SETTINGS }, [source])
  // The same user that agents have where svc runs as root, so that files keep their owner.
  const user = agentUsers(read, undefined, true) ?? refuse('invalid', 'no user for agents')
  const databasePort = mustHaveDatabase(entries, layout)
  const key = mustHave(entries, 'SECRETS_KEY', instance, layout)
  mustHave(entries, 'CHANNEL_SECRET', instance, layout)
  const sandbox = entries.get('SANDBOX') || 'bwrap'
  if (sandbox !== 'bwrap' && sandbox !== 'none')
    refuse(
      'invalid',
      `SANDBOX=${sandbox} in ${layout.env} does not work in Kubernetes: pods have no container engine`,
      'remove SANDBOX from .env: agents then run in cells of bubblewrap',
    )
  const owners = [...DAEMON_NAMES, SETUP] as const
  const texts = owners.map((of) => [secretName(instance, of), formatDotenv(settingsOf(of, entries))] as const)
  const image = read.SVC_IMAGE || `svc-host:${packageVersion()}`
  return {
    input: {
      instance,
      image,
      uid: user.uid,
      databasePort,
      collectorPort: portOfUrl(entries.get('OTEL_EXPORTER_OTLP_ENDPOINT')),
      hasCells: sandbox === 'bwrap',
      filesSize: read.KUBERNETES_VOLUME,
      // Keyed, so that a digest in the manifest is no way to try passwords.
      digests: new Map(texts.map(([name, text]) => [name, createHmac('sha256', key).update(text).digest('hex')])),
    },
    secrets: texts.map(([name, text]) => secret(instance, name, text)),
    warnings: warningsFor(entries, image),
  }
}

/** Returns the port of the server. */
function mustHaveDatabase(entries: ReadonlyMap<string, string>, { env }: Layout): number {
  const text = entries.get('DATABASE_URL') ?? ''
  const hint =
    'set DATABASE_URL to a server that the cluster reaches; svc backup and svc restore --database move the data'
  if (text === '') refuse('invalid', `Kubernetes needs a PostgreSQL database, but ${env} has no DATABASE_URL`, hint)
  const url = URL.parse(text)
  // Never quoted: it contains a password.
  if (!url || /^(?:|localhost|127\..*|\[::1\]|%2F.*)$/i.test(url.hostname))
    refuse(
      'invalid',
      `the server of DATABASE_URL in ${env} is this machine, which pods cannot reach by that name`,
      hint,
    )
  return Number(url.port || 5432)
}

function mustHave(entries: ReadonlyMap<string, string>, key: string, instance: string, { env }: Layout): string {
  const value = entries.get(key) ?? ''
  return value || refuse('invalid', `${key} is not set in ${env}`, `svc create ${instance} adds it`)
}

/** Pods of a cluster have addresses of these ranges. Network policies let only proxyd in. */
const CLUSTER_RANGES = '127.0.0.0/8,10.0.0.0/8,100.64.0.0/10,172.16.0.0/12,192.168.0.0/16,fc00::/7'

/** Those that `svc create` would add to a file, which it cannot do here. */
const SETUP_KEYS = ['ASSISTANT_NAME', 'WEB_LISTEN', 'WEB_HOST', 'CHANNEL_SECRET', 'SECRETS_KEY', 'DATABASE_URL', 'TZ']

function settingsOf(of: DaemonName | typeof SETUP, entries: ReadonlyMap<string, string>): [string, string][] {
  const isNeeded = (key: string): boolean => (of === SETUP ? SETUP_KEYS.includes(key) : needsSetting(of, key))
  const settings = new Map([...entries].filter(([key]) => isNeeded(key)))
  if (of === SETUP) for (const key of SETUP_KEYS.slice(0, 3)) if (!settings.has(key)) settings.set(key, defaultOf(key))
  // They see proxyd as their client, and learn from it who the real one is.
  if (of !== 'proxyd' && of !== SETUP)
    settings.set('TRUSTED_PROXIES', [entries.get('TRUSTED_PROXIES'), CLUSTER_RANGES].filter(Boolean).join(','))
  if (of === 'proxyd') settings.set('SETTINGS_SET', setKeys(entries))
  return [...settings].toSorted(([one], [other]) => (one < other ? -1 : 1))
}

function defaultOf(key: string): string {
  const initial = ALL_SETTINGS[key]?.initial
  return typeof initial === 'string' ? initial : ''
}

function secret(instance: string, name: string, text: string): Secret {
  const labels = { 'app.kubernetes.io/name': 'svc', 'app.kubernetes.io/instance': kubernetesName(instance) }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, labels: { ...labels, 'app.kubernetes.io/managed-by': 'svc' } },
    type: 'Opaque',
    data: { '.env': Buffer.from(text).toString('base64') },
  }
}

function warningsFor(entries: ReadonlyMap<string, string>, image: string): readonly string[] {
  const warnings: string[] = []
  if (!image.includes('/'))
    warnings.push(`nodes must have the image ${image}: push it to a registry and set SVC_IMAGE to its name there`)
  for (const key of unreachableUrls(entries))
    warnings.push(`${key} names this machine, which pods cannot reach by that name`)
  if (/^(?:https?:\/\/)?(?:localhost|127\.)/.test(entries.get('WEB_HOST') || 'localhost'))
    warnings.push('links will lead to localhost: set WEB_HOST to the host name of your ingress')
  return warnings
}

// --- Files ---

const MANIFEST_NOTE =
  '# Contains no secrets. Do not edit it: change .env and run svc generate again, or patch it with kustomize.'
const SECRETS_NOTE = '# Contains secrets. Do not edit it: change .env and run svc generate again.'

async function stampedYaml(objects: readonly object[], note: string): Promise<string> {
  const { stringify } = await import('yaml')
  // Double quotes everywhere: readers of YAML 1.1 take `on` and `1:30` for something else.
  const options = {
    lineWidth: 0,
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    aliasDuplicateObjects: false,
  } as const
  const body = `${note}\n${objects.map((object) => stringify(object, options)).join('---\n')}`
  return stampText(body)
}

const EDIT_HINT = 'keep your changes in .env or in a kustomization, then write it anew with --force'
