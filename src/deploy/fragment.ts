// A fragment: services/<name>.yml, the services that a package adds to the compose file. Packages are programs of other
// people, so a fragment may say little: which image runs with which arguments, named volumes and files of the package. What
// would open the host or the other containers is refused, each with a sentence.
import { z } from 'zod'
import { DAEMON_NAMES } from '../daemons/settings.ts'
import { parseAllowlistEntry } from '../egress/policy/allowlist-entry.ts'
import { refuse } from '../lib/refusal.ts'
import { parse } from '../lib/text/schema-parser.ts'

/** Names of services that svc itself writes. */
export const EGRESS_SERVICE = 'egress-proxy'
export const POSTGRES_SERVICE = 'postgres'
const RESERVED: readonly string[] = [...DAEMON_NAMES, EGRESS_SERVICE, POSTGRES_SERVICE]

const SERVICES_MAX = 20
const TEXT_MAX_BYTES = 262_144

/** Why a key is refused that a compose file may have. */
const FORBIDDEN: Readonly<Record<string, string>> = {
  privileged: 'gives the container every right on this machine',
  cap_add: 'gives the container rights of the administrator',
  devices: 'gives the container devices of this machine',
  device_cgroup_rules: 'gives the container devices of this machine',
  security_opt: 'changes how the container is confined',
  network_mode: 'joins the network of this machine or of another container',
  networks: 'is chosen by svc: services of packages reach routd, proxyd, runed and egress-proxy',
  pid: 'joins the processes of this machine or of another container',
  ipc: 'joins the shared memory of this machine or of another container',
  uts: 'joins the host name of this machine',
  userns_mode: 'joins the users of this machine',
  cgroup: 'joins the control groups of this machine',
  cgroup_parent: 'joins the control groups of this machine',
  ports: 'opens a port of this machine; add a proxy route to the package instead',
  env_file: 'reads a file of this machine; name the settings under x-svc instead',
  build: 'builds an image on this machine; name a built image instead',
  extends: 'reads a file of this machine; write the service out',
  volumes_from: 'mounts directories of another container',
  container_name: 'is chosen by the engine',
  extra_hosts: 'changes which machine a host name means',
  dns: 'changes which machine a host name means',
  links: 'changes which machine a host name means',
  external_links: 'joins containers of another project',
  group_add: 'joins a group of this machine',
  sysctls: 'changes settings of the kernel',
  runtime: 'changes how the container is confined',
  logging: 'sends the log elsewhere',
  deploy: 'is not used here; write mem_limit, cpus or pids_limit',
  configs: 'reads files of this machine; mount a file of the package instead',
  secrets: 'reads files of this machine; name the settings under x-svc instead',
  restart: 'is chosen by svc: services restart unless stopped',
}

const FORBIDDEN_TOP: Readonly<Record<string, string>> = {
  networks: 'is chosen by svc',
  include: 'reads other files; write the services out',
  name: 'is chosen by svc',
  version: 'is not needed; remove it',
  configs: FORBIDDEN.configs ?? '',
  secrets: FORBIDDEN.secrets ?? '',
}

const Text = z.string().refine((text) => !text.includes('\0'), 'must not contain a NUL byte')
const Scalar = z.union([Text, z.number(), z.boolean()]).transform(String)
const Words = z.union([Text, z.array(Scalar).max(200)])
const Key = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'must be letters, digits and "_"')
const Duration = z.string().regex(/^(\d+(\.\d+)?(us|ms|s|m|h)){1,4}$/, 'must be a duration such as 10s or 1m30s')
const Size = z
  .union([z.string().regex(/^\d+(\.\d+)?[bkmg]?b?$/i, 'must be a size such as 512m'), z.int()])
  .transform(String)
const AbsolutePath = z
  .string()
  .regex(/^(\/[A-Za-z0-9._-]+)+$/, 'must be an absolute path of letters, digits, ".", "_" and "-"')
  .refine((path) => !path.split('/').some((part) => part === '..' || part === '.'), 'must not contain ..')

const Environment = z
  .union([
    z.record(Key, Scalar),
    z
      .array(Text)
      .max(200)
      .transform((lines, ctx) => {
        const entries = lines.map((line): [string, string] => [
          line.split('=', 1)[0] ?? '',
          line.replace(/^[^=]*=/s, ''),
        ])
        const wrong = lines.find((line) => !/^[A-Za-z_][A-Za-z0-9_]*=/.test(line))
        // KEY without a value would read the variable of the shell that runs compose.
        if (wrong === undefined) return Object.fromEntries(entries)
        ctx.addIssue({
          code: 'custom',
          message: `must have lines such as KEY=value, not ${JSON.stringify(wrong.slice(0, 80))}`,
        })
        return z.NEVER
      }),
  ])
  .optional()

const VolumeName = /^[a-z][a-z0-9_-]{0,62}$/

export interface FragmentVolume {
  /** A named volume, or a file or directory of the package, relative to services/<name>/. */
  readonly kind: 'volume' | 'file'
  readonly source: string
  readonly target: string
  readonly isReadOnly: boolean
}

const Volume = z
  .union([
    z.string().transform((text, ctx) => {
      const [source, target, mode, ...rest] = text.split(':')
      if (source !== undefined && target !== undefined && rest.length === 0 && ['ro', 'rw', undefined].includes(mode))
        return { source, target, read_only: mode === 'ro' }
      ctx.addIssue({ code: 'custom', message: 'must look like name:/path or ./file:/path:ro' })
      return z.NEVER
    }),
    z.strictObject({
      type: z.enum(['volume', 'bind']).optional(),
      source: z.string(),
      target: z.string(),
      read_only: z.boolean().optional(),
    }),
  ])
  .transform(({ source, target, read_only }, ctx): FragmentVolume => {
    const fail = (message: string): never => {
      ctx.addIssue({ code: 'custom', message })
      return z.NEVER
    }
    if (!AbsolutePath.safeParse(target).success)
      return fail(`must have an absolute path in the container, not ${JSON.stringify(target.slice(0, 80))}`)
    const isReadOnly = read_only === true
    if (VolumeName.test(source)) return { kind: 'volume', source, target, isReadOnly }
    const shown = JSON.stringify(source.slice(0, 80))
    if (!source.startsWith('./'))
      return fail(`mounts the path ${shown} of this machine; use a named volume, or ./file of the package`)
    if (
      !/^\.(\/[A-Za-z0-9._-]+)+$/.test(source) ||
      source
        .slice(2)
        .split('/')
        .some((part) => /^\.+$/.test(part))
    )
      return fail(`mounts ${shown}, which is not a path inside the package`)
    if (!isReadOnly) return fail(`mounts ${shown} of the package writable; add :ro, or use a named volume`)
    return { kind: 'file', source: source.slice(2), target, isReadOnly }
  })

const Condition = z.enum(['service_started', 'service_healthy', 'service_completed_successfully'])
const DependsOn = z
  .union([
    z
      .array(z.string())
      .transform((names) => Object.fromEntries(names.map((name) => [name, 'service_started' as const]))),
    z
      .record(z.string(), z.strictObject({ condition: Condition }))
      .transform((all) => Object.fromEntries(Object.entries(all).map(([name, { condition }]) => [name, condition]))),
  ])
  .optional()

const HealthCheck = z.strictObject({
  test: Words,
  interval: Duration.optional(),
  timeout: Duration.optional(),
  retries: z.int().min(1).max(1000).optional(),
  start_period: Duration.optional(),
})

const Image = Text.pipe(
  z
    .string()
    .max(300)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._/:@-]*$/, 'must be the name of an image such as example/gateway:1.2'),
)

const Service = z.strictObject({
  image: Image,
  command: Words.optional(),
  entrypoint: Words.optional(),
  environment: Environment,
  volumes: z.array(Volume).max(50).optional(),
  depends_on: DependsOn,
  healthcheck: HealthCheck.optional(),
  user: z
    .union([z.string(), z.int()])
    .transform(String)
    .pipe(
      z
        .string()
        .regex(/^[1-9]\d{0,9}(:[1-9]\d{0,9})?$/, 'must be the number of a user other than root, such as 1000:1000'),
    )
    .optional(),
  working_dir: AbsolutePath.optional(),
  tmpfs: z.union([AbsolutePath.transform((path) => [path]), z.array(AbsolutePath).max(20)]).optional(),
  read_only: z.boolean().optional(),
  init: z.boolean().optional(),
  stop_grace_period: Duration.optional(),
  stop_signal: z
    .string()
    .regex(/^SIG[A-Z0-9]{2,10}$/, 'must be a signal such as SIGTERM')
    .optional(),
  shm_size: Size.optional(),
  mem_limit: Size.optional(),
  cpus: z
    .union([z.number().positive(), z.string().regex(/^\d+(\.\d+)?$/)])
    .transform(Number)
    .optional(),
  pids_limit: z.int().min(1).optional(),
})

export type FragmentService = z.output<typeof Service>

const Host = z.string().transform((text, ctx) => {
  const entry = parseAllowlistEntry(text)
  if ('host' in entry) return entry.host
  ctx.addIssue({ code: 'custom', message: `is not valid: ${entry.fault.replace(/\.$/, '')}` })
  return z.NEVER
})

const SettingKeys = z
  .array(z.string().regex(/^[A-Z][A-Z0-9_]{0,127}$/, 'must look like SOME_SETTING'))
  .max(100)
  .default([])

const Extension = z.strictObject({
  hosts: z.array(Host).max(200).default([]),
  settings: SettingKeys,
  /** Without a warning if .env does not have them. */
  optional_settings: SettingKeys,
})

/** Settings of svc that no other program may have. */
const PRIVATE_SETTINGS: readonly string[] = ['SECRETS_KEY', 'DATABASE_URL', 'POSTGRES_PASSWORD']

const Document = z.strictObject({
  services: z.record(z.string(), z.unknown()),
  /** Named volumes; their options would be paths of this machine. */
  volumes: z
    .record(
      z.string().regex(VolumeName, 'must be lower-case letters, digits, "_" and "-"'),
      z.union([z.null(), z.strictObject({})]),
    )
    .optional(),
  'x-svc': Extension.optional(),
})

export interface Fragment {
  /** Of its file, without .yml. */
  readonly name: string
  readonly services: ReadonlyMap<string, FragmentService>
  /** Names of its volumes. */
  readonly volumes: readonly string[]
  /** Hosts that egress-proxy allows its services. */
  readonly hosts: readonly string[]
  /** Keys of .env that its services get as environment variables. */
  readonly settings: readonly string[]
  /** Those among them that .env may lack. */
  readonly optionalSettings: readonly string[]
}

/** The name of a fragment or package. */
export const FRAGMENT_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/

/** Refuses everything that a fragment may not say. `name` is that of its file, without .yml. */
export async function parseFragment(text: string, name: string): Promise<Fragment> {
  const file = `services/${name.slice(0, 80)}.yml`
  if (!FRAGMENT_NAME.test(name))
    refuse(
      'invalid',
      `${JSON.stringify(`${name.slice(0, 80)}.yml`)} must be named with lower-case letters, digits and "-"`,
    )
  const raw = withoutVariables(await readYaml(text, file), file)
  refuseKeys(raw, FORBIDDEN_TOP, file)
  const document = parse(Document, raw, file)
  const services = new Map<string, FragmentService>()
  for (const [service, value] of Object.entries(document.services)) {
    if (!/^[a-z][a-z0-9-]{0,62}$/.test(service))
      refuse(
        'invalid',
        `${file}: the service ${JSON.stringify(service.slice(0, 80))} must be named with lower-case letters, digits and "-"`,
      )
    if (RESERVED.includes(service))
      refuse('invalid', `${file}: ${service} is the name of a service of svc itself; choose another`)
    const where = `${file}: ${service}`
    refuseKeys(value, FORBIDDEN, where)
    services.set(service, parse(Service, value, where))
  }
  if (services.size === 0) refuse('invalid', `${file} has no services`)
  if (services.size > SERVICES_MAX) refuse('invalid', `${file} has more than ${SERVICES_MAX} services`)
  const extension = document['x-svc']
  const hosts = extension?.hosts ?? []
  const optionalSettings = extension?.optional_settings ?? []
  const settings = [...new Set([...(extension?.settings ?? []), ...optionalSettings])]
  const secret = settings.find((key) => PRIVATE_SETTINGS.includes(key))
  if (secret !== undefined)
    refuse('invalid', `${file}: x-svc.settings names ${secret}, which no other program may have`)
  const volumes = Object.keys(document.volumes ?? {})
  mustDeclareVolumes(services, volumes, file)
  return { name, services, volumes, hosts, settings, optionalSettings }
}

function mustDeclareVolumes(services: Fragment['services'], volumes: readonly string[], file: string): void {
  for (const [service, { volumes: mounts = [] }] of services)
    for (const { kind, source } of mounts)
      if (kind === 'volume' && !volumes.includes(source))
        refuse(
          'invalid',
          `${file}: ${service} mounts the volume ${source}, which the fragment does not declare under volumes`,
        )
}

/** One sentence per key that compose knows and a fragment may not have; others are reported as unknown. */
function refuseKeys(value: unknown, forbidden: Readonly<Record<string, string>>, where: string): void {
  if (typeof value !== 'object' || value === null) return
  const key = Object.keys(value).find((each) => Object.hasOwn(forbidden, each))
  if (key !== undefined) refuse('invalid', `${where}: ${key} is not allowed in a package: it ${forbidden[key]}`)
}

/** Compose would replace `$NAME` by a variable of the shell that runs it, so `$$` stands for a dollar sign. */
function withoutVariables(value: unknown, file: string): unknown {
  if (typeof value === 'string') {
    if (value.replaceAll('$$', '').includes('$'))
      refuse(
        'invalid',
        `${file}: ${JSON.stringify(value.slice(0, 80))} uses a variable; name the setting under x-svc, or write $$ for a dollar sign`,
      )
    return value.replaceAll('$$', '$')
  }
  if (Array.isArray(value)) return value.map((each) => withoutVariables(each, file))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutVariables(each, file)]))
}

async function readYaml(text: string, file: string): Promise<unknown> {
  if (Buffer.byteLength(text) > TEXT_MAX_BYTES) refuse('too_large', `${file} is larger than ${TEXT_MAX_BYTES} bytes`)
  const { parse: parseYaml } = await import('yaml')
  try {
    return parseYaml(text, { maxAliasCount: 0, logLevel: 'error', uniqueKeys: true })
  } catch (error) {
    const [reason] = error instanceof Error ? error.message.split('\n') : []
    return refuse('invalid', `${file} is not valid YAML: ${reason?.replace(/:$/, '')}`)
  }
}
