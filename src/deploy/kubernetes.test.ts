import assert from 'node:assert/strict'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { Deployment } from 'kubernetes-models/apps/v1/Deployment'
import { StatefulSet } from 'kubernetes-models/apps/v1/StatefulSet'
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { Secret } from 'kubernetes-models/v1/Secret'
import { Service } from 'kubernetes-models/v1/Service'
import { parseAllDocuments } from 'yaml'
import { tempDir } from '../../test/support/temp.ts'
import { layout } from '../core/layout.ts'
import { ALL_SETTINGS, DAEMON_NAMES } from '../daemons/settings.ts'
import { parseDotenv } from '../lib/text/dotenv.ts'
import { DAEMON_NEEDS, needsSetting } from './daemon-needs.ts'
import { kubernetesName, kubernetesObjects, WITH_FILES } from './kubernetes.ts'
import { generateKubernetes } from './kubernetes-files.ts'

const SETTINGS: Record<string, string> = {
  ASSISTANT_NAME: 'demo',
  WEB_LISTEN: '127.0.0.1:8080',
  WEB_HOST: 'chat.example.com',
  CHANNEL_SECRET: 'c'.repeat(64),
  SECRETS_KEY: 'k'.repeat(64),
  DATABASE_URL: 'postgres://svc:p4ssw0rd@db.example.com:6432/svc',
  SVC_IMAGE: 'registry.example.com/svc-host:1',
}

const PROVIDERS = { GITHUB_ID: 'app', OIDC_WORK_ISSUER: 'https://id.example.com', OIDC_WORK_ID: 'app' }

/** The members that the tests read. */
interface Container {
  readonly name: string
  readonly image: string
  readonly args?: readonly string[]
  readonly env: readonly { name: string; value: string }[]
  readonly ports?: readonly { name: string; containerPort: number }[]
  readonly volumeMounts: readonly { name: string; mountPath: string; subPath?: string; readOnly?: boolean }[]
  readonly securityContext: Record<string, unknown>
  readonly livenessProbe?: { httpGet: { path: string } }
  readonly readinessProbe?: { httpGet: { path: string } }
}
interface Rule {
  readonly from?: readonly { podSelector: { matchLabels: Record<string, string> } }[]
  readonly to?: readonly { podSelector?: { matchLabels: Record<string, string> }; ipBlock?: { cidr: string } }[]
  readonly ports?: readonly { port: number }[]
}
interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly data?: Record<string, string>
  readonly spec: {
    readonly replicas?: number
    readonly selector: Record<string, unknown>
    readonly ports: readonly { port: number; targetPort: string }[]
    readonly ingress?: readonly Rule[]
    readonly egress?: readonly Rule[]
    readonly template: {
      readonly metadata: { labels: Record<string, string>; annotations: Record<string, string> }
      readonly spec: {
        readonly hostUsers?: boolean
        readonly automountServiceAccountToken: boolean
        readonly securityContext: Record<string, unknown>
        readonly initContainers?: readonly Container[]
        readonly containers: readonly Container[]
        readonly volumes: readonly { name: string; secret?: { secretName: string } }[]
      }
    }
  }
}

function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => {
    assert.deepEqual([document.errors, document.warnings], [[], []])
    return document.toJS()
  })
}

async function generate(t: Pick<TestContext, 'after'>, settings = SETTINGS, instance = 'demo', isForced = false) {
  const root = tempDir(t)
  const warnings: string[] = []
  const options = {
    instance,
    layout: layout(root),
    entries: new Map(Object.entries(settings)),
    isForced,
    warn: (text: string) => warnings.push(text),
  }
  const generated = await generateKubernetes(options)
  const [manifest, secrets] = [readFileSync(generated.manifest, 'utf8'), readFileSync(generated.secrets, 'utf8')]
  return { root, options, generated, warnings, manifest, secrets, objects: parseManifests(manifest) }
}

const pods = (objects: readonly Manifest[]) =>
  objects.filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
const containersOf = ({ spec }: Manifest) => [
  ...(spec.template.spec.initContainers ?? []),
  ...spec.template.spec.containers,
]

suite('the manifest', () => {
  test('is valid by the schemas of Kubernetes', async (t) => {
    const models = { Deployment, StatefulSet, NetworkPolicy, PodDisruptionBudget, Secret, Service }
    const { objects, secrets } = await generate(t)
    const all = [...objects, ...parseManifests(secrets)]
    assert.ok(all.length > 30)
    for (const object of all) {
      const Model = Object.entries(models).find(([kind]) => kind === object.kind)?.[1] ?? assert.fail(object.kind)
      new Model(JSON.parse(JSON.stringify(object))).validate()
    }
    const wrong = new Deployment({ metadata: { name: 'x' }, spec: JSON.parse('{"replicas": "two"}') })
    assert.throws(() => wrong.validate())
    assert.equal(new Set(all.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).size, all.length)
  })

  test('runs every daemon, with the settings of its own Secret only', async (t) => {
    const { objects, secrets } = await generate(t)
    const containers = pods(objects).flatMap((pod) => pod.spec.template.spec.containers)
    assert.deepEqual([...new Set(containers.map(({ name }) => name))].sort(), [...DAEMON_NAMES].sort())
    const known = parseManifests(secrets).map(({ metadata }) => metadata.name)
    for (const pod of pods(objects)) {
      const volumes = pod.spec.template.spec.volumes.flatMap(({ name, secret }) =>
        secret ? [[name, secret.secretName]] : [],
      )
      for (const { name, args, volumeMounts } of containersOf(pod)) {
        if (args) assert.deepEqual(args, ['serve', 'demo', name])
        const mounts = volumeMounts.filter((mount) => mount.name.startsWith('settings-'))
        assert.deepEqual(mounts, [
          { name: `settings-${name}`, mountPath: '/data/svc_demo/.env', subPath: '.env', readOnly: true },
        ])
        assert.ok(volumes.some(([volume, secret = '']) => volume === `settings-${name}` && known.includes(secret)))
      }
    }
  })

  test('confines every container', async (t) => {
    for (const pod of pods((await generate(t)).objects)) {
      const { automountServiceAccountToken, securityContext } = pod.spec.template.spec
      assert.equal(automountServiceAccountToken, false)
      assert.deepEqual(
        [securityContext.runAsNonRoot, securityContext.runAsUser, securityContext.seccompProfile],
        [true, 60_000, { type: 'RuntimeDefault' }],
      )
      for (const { name, securityContext } of containersOf(pod)) {
        const { allowPrivilegeEscalation, readOnlyRootFilesystem, capabilities } = securityContext
        assert.deepEqual(
          [allowPrivilegeEscalation, readOnlyRootFilesystem, capabilities],
          [false, true, { drop: ['ALL'] }],
          name,
        )
        assert.equal(securityContext.seccompProfile !== undefined, name === 'runed', name)
      }
    }
  })

  test('gives runed what cells need, in a user namespace of the pod, unless SANDBOX is none', async (t) => {
    const runedOf = ({ objects }: { objects: readonly Manifest[] }) => {
      const pod = objects.find(({ kind }) => kind === 'StatefulSet') ?? assert.fail()
      return [pod.spec.template.spec, containersOf(pod).find(({ name }) => name === 'runed') ?? assert.fail()] as const
    }
    const [pod, runed] = runedOf(await generate(t))
    assert.deepEqual([pod.hostUsers, runed.securityContext.procMount], [false, 'Unmasked'])
    const [plainPod, plain] = runedOf(await generate(t, { ...SETTINGS, SANDBOX: 'none' }))
    assert.deepEqual([plainPod.hostUsers, plain.securityContext.procMount], [undefined, undefined])
  })

  test('asks the store for readiness but not for liveness', async (t) => {
    for (const pod of pods((await generate(t)).objects))
      for (const { livenessProbe, readinessProbe } of pod.spec.template.spec.containers)
        assert.deepEqual([livenessProbe?.httpGet.path, readinessProbe?.httpGet.path], ['/livez', '/health'])
  })

  test('leads each Service to a port of running pods', async (t) => {
    const { objects } = await generate(t)
    const services = objects.filter(({ kind }) => kind === 'Service')
    assert.deepEqual(
      services.map(({ metadata }) => metadata.name).sort(),
      [...DAEMON_NAMES, 'web'].map((name) => `svc-demo-${name}`).sort(),
    )
    for (const { metadata, spec } of services) {
      const chosen = pods(objects).filter(({ spec: { template } }) =>
        Object.entries(spec.selector).every(([key, value]) => template.metadata.labels[key] === value),
      )
      assert.equal(chosen.length, 1, metadata.name)
      const names = chosen.flatMap((pod) =>
        containersOf(pod).flatMap(({ ports }) => ports?.map(({ name }) => name) ?? []),
      )
      assert.ok(names.includes(spec.ports[0]?.targetPort ?? ''), metadata.name)
    }
  })

  test('allows exactly the calls that daemons make', async (t) => {
    const { objects } = await generate(t)
    const policies = objects.filter(({ kind, spec }) => kind === 'NetworkPolicy' && spec.ingress)
    const componentOf = (labels: Record<string, string> | undefined) => labels?.['app.kubernetes.io/component'] ?? '?'
    const nameOf = ({ metadata }: Manifest) => metadata.name.replace('svc-demo-', '')
    const [sent, received] = [new Set<string>(), new Set<string>()]
    for (const policy of policies) {
      for (const { to = [], ports = [] } of policy.spec.egress ?? [])
        for (const { podSelector } of to)
          if (podSelector)
            for (const { port } of ports) sent.add(`${nameOf(policy)} ${componentOf(podSelector.matchLabels)} ${port}`)
      for (const { from = [], ports = [] } of policy.spec.ingress ?? [])
        for (const { podSelector } of from)
          for (const { port } of ports)
            received.add(`${componentOf(podSelector.matchLabels)} ${nameOf(policy)} ${port}`)
    }
    assert.deepEqual([...sent].sort(), [...received].sort())
    // By the URLs that containers have.
    const called = pods(objects).flatMap((pod) => {
      const from = componentOf(pod.spec.template.metadata.labels)
      return containersOf(pod).flatMap(({ env }) =>
        env.flatMap(({ value }) => {
          const peer = /^http:\/\/svc-demo-(\w+):8080$/.exec(value)?.[1]
          const service = objects.find(
            ({ kind, metadata }) => kind === 'Service' && metadata.name === `svc-demo-${peer}`,
          )
          if (!service) return []
          const port = 8080 + DAEMON_NAMES.map(String).indexOf(service.spec.ports[0]?.targetPort ?? '')
          return [`${from} ${service.spec.selector['app.kubernetes.io/component']} ${port}`]
        }),
      )
    })
    assert.deepEqual([...new Set(called)].sort(), [...sent].sort())
    const reachesOut = policies.filter(({ spec }) =>
      spec.egress?.some(({ to }) => to?.some(({ ipBlock }) => ipBlock?.cidr === '0.0.0.0/0')),
    )
    assert.deepEqual(reachesOut.map(nameOf).sort(), ['authd', 'files'])
    const databases = policies.filter(({ spec }) =>
      spec.egress?.some(({ ports }) => ports?.some(({ port }) => port === 6432)),
    )
    assert.equal(databases.length, policies.length)
  })

  test('lets only daemons that record spans reach the port of the collector', async (t) => {
    const { objects } = await generate(t, { ...SETTINGS, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' })
    const reaching = objects.filter(({ kind, spec }) => {
      const rules = kind === 'NetworkPolicy' ? (spec.egress ?? []) : []
      return rules.some(({ ports }) => ports?.some(({ port }) => port === 4318))
    })
    assert.deepEqual(reaching.map(({ metadata }) => metadata.name).sort(), [
      'svc-demo-files',
      'svc-demo-timed',
      'svc-demo-webd',
    ])
  })

  test('runs adapters beside routd, in the pod of the daemons that send to them, on loopback', async (t) => {
    const { objects } = await generate(t)
    const hosts = pods(objects).flatMap((pod) =>
      containersOf(pod).flatMap(({ name, env }) =>
        env.flatMap(({ name: key, value }) => (key === 'ADAPTER_HOST' ? [[pod.metadata.name, name, value]] : [])),
      ),
    )
    assert.deepEqual(hosts, [['svc-demo-files', 'routd', '127.0.0.1']])
    // Those that send to adapters exchange requests with the services of packages, too; proxyd only forwards to routes.
    const senders = DAEMON_NAMES.filter((name) => name !== 'proxyd' && DAEMON_NEEDS[name].hasPackages)
    assert.deepEqual(
      senders.filter((name) => !WITH_FILES.some((other) => other === name)),
      [],
    )
  })

  test('gives daemons with files the directories that they need, and the others none', async (t) => {
    const { objects } = await generate(t)
    const files = objects.find(({ kind }) => kind === 'StatefulSet') ?? assert.fail()
    const mounted = files.spec.template.spec.containers.map(({ name, volumeMounts }) => [
      name,
      volumeMounts.flatMap(({ name, subPath, readOnly }) =>
        name === 'data' ? [`${subPath}${readOnly ? ':ro' : ''}`] : [],
      ),
    ])
    assert.deepEqual(Object.fromEntries(mounted), {
      proxyd: ['web:ro'],
      webd: ['groups:ro', 'files'],
      routd: ['outbox', 'channels'],
      gated: ['store', 'groups', 'skills:ro', 'chats:ro', 'files', 'ipc', 'web', 'outbox', 'speech'],
      runed: ['store', 'groups', 'skills:ro', 'chats', 'files', 'logs', 'cells', 'web', 'outbox', 'speech'],
      onbod: ['groups', 'skills:ro', 'web'],
      dashd: ['store', 'groups', 'skills:ro', 'chats:ro', 'logs:ro', 'web'],
    })
    assert.deepEqual(
      files.spec.template.spec.containers.map(({ name }) => name),
      WITH_FILES,
    )
  })
})

suite('names', () => {
  test('are names of Kubernetes for every instance, and differ', () => {
    const Instance = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,31}$/)
    fc.assert(
      fc.property(Instance, Instance, (one, other) => {
        // The longest name, with the hash that a StatefulSet adds to a label.
        const name = `${kubernetesName(one)}-files-0123456789`
        assert.match(name, /^[a-z]([-a-z0-9]*[a-z0-9])?$/)
        assert.ok(name.length <= 63, name)
        if (one !== other) assert.notEqual(kubernetesName(one), kubernetesName(other))
      }),
    )
    assert.equal(kubernetesName('demo'), 'svc-demo')
    assert.notEqual(kubernetesName('A_b'), kubernetesName('a-b'))
    assert.match(kubernetesName('___'), /^svc-[0-9a-f]{8}$/)
  })
})

/** Values that are valid for every text setting. */
const Value = fc
  .string({ unit: 'grapheme', minLength: 12, maxLength: 60 })
  .filter((text) => text.trim() !== '' && !text.includes('\0'))

suite('settings', () => {
  test('reach their daemons unchanged, and none is in the manifest', async (t) => {
    const Settings = fc.record({
      ASSISTANT_NAME: Value,
      CHANNEL_SECRET: Value,
      SECRETS_KEY: Value,
      GITHUB_SECRET: Value,
      OIDC_WORK_SECRET: Value,
      TTS_KEY: Value,
      password: fc.string({ unit: 'grapheme-ascii', minLength: 12, maxLength: 40 }),
    })
    const given = fc.asyncProperty(Settings, async ({ password, ...random }) => {
      const url = `postgres://svc:${encodeURIComponent(password)}@db.example.com/svc`
      const entries: Record<string, string> = { ...SETTINGS, ...PROVIDERS, ...random, DATABASE_URL: url }
      const { manifest, secrets } = await generate(t, entries)
      const objects = parseManifests(manifest)
      for (const value of [...Object.values(random), url, encodeURIComponent(password), password]) {
        const isShown = (each: unknown): boolean =>
          typeof each === 'object' && each !== null ? Object.values(each).some(isShown) : String(each).includes(value)
        assert.equal(isShown(objects), false)
      }
      for (const { metadata, data } of parseManifests(secrets)) {
        const read = parseDotenv(Buffer.from(data?.['.env'] ?? '', 'base64').toString(), metadata.name)
        const daemon = DAEMON_NAMES.find((name) => metadata.name === `svc-demo-${name}`)
        if (!daemon) continue
        for (const [key, value] of Object.entries(entries))
          assert.equal(read.get(key), needsSetting(daemon, key) ? value : undefined, `${key} of ${daemon}`)
      }
    })
    await fc.assert(given, { numRuns: 25 })
  })

  test('of the setup are complete, so that svc create writes none', async (t) => {
    const { ASSISTANT_NAME: _, WEB_LISTEN: __, ...without } = SETTINGS
    const { secrets } = await generate(t, without)
    const setup = parseManifests(secrets).find(({ metadata }) => metadata.name === 'svc-demo-setup')
    const read = parseDotenv(Buffer.from(setup?.data?.['.env'] ?? '', 'base64').toString(), 'setup')
    assert.deepEqual([...read.keys()].sort(), [
      ...['ASSISTANT_NAME', 'CHANNEL_SECRET', 'DATABASE_URL', 'SECRETS_KEY', 'WEB_HOST', 'WEB_LISTEN'],
    ])
    for (const key of read.keys()) assert.ok(Object.hasOwn(ALL_SETTINGS, key), key)
  })

  test('that change restart the pods that read them, and no others', async (t) => {
    const stamps = async (settings: Record<string, string>) =>
      pods((await generate(t, settings)).objects).map(({ metadata, spec }) => [
        metadata.name,
        spec.template.metadata.annotations['svc/settings'],
      ])
    const before = await stamps(SETTINGS)
    assert.deepEqual(await stamps(SETTINGS), before)
    const after = await stamps({ ...SETTINGS, GITHUB_ID: 'app', GITHUB_SECRET: 'new' })
    const changed = after.filter(([, stamp], at) => stamp !== before[at]?.[1]).map(([name]) => name)
    // proxyd learns which settings have a value.
    assert.deepEqual(changed, ['svc-demo-proxyd', 'svc-demo-authd', 'svc-demo-files'])
    const value = await stamps({ ...SETTINGS, GITHUB_ID: 'app', GITHUB_SECRET: 'other' })
    assert.deepEqual(
      value.filter(([, stamp], at) => stamp !== after[at]?.[1]).map(([name]) => name),
      ['svc-demo-authd'],
    )
  })
})

suite('files', () => {
  test('are private only where they have secrets, and equal after a second run', async (t) => {
    const { generated, options, manifest, secrets } = await generate(t)
    assert.deepEqual([generated.isChanged, generated.name], [true, 'svc-demo'])
    assert.equal(statSync(generated.manifest).mode & 0o777, 0o644)
    assert.equal(statSync(generated.secrets).mode & 0o777, 0o600)
    assert.equal((await generateKubernetes(options)).isChanged, false)
    assert.equal(readFileSync(generated.manifest, 'utf8'), manifest)
    assert.equal(readFileSync(generated.secrets, 'utf8'), secrets)
  })

  test('that were edited by hand stay, unless forced', async (t) => {
    const { generated, options, manifest, secrets } = await generate(t)
    writeFileSync(generated.manifest, manifest.replace('replicas: 2', 'replicas: 3'))
    await assert.rejects(generateKubernetes(options), /kubernetes\.yml was edited by hand; nothing was changed/)
    assert.equal(readFileSync(generated.secrets, 'utf8'), secrets)
    await generateKubernetes({ ...options, isForced: true })
    assert.equal(readFileSync(generated.manifest, 'utf8'), manifest)
  })

  const refused: Record<string, [Record<string, string | undefined>, RegExp]> = {
    'no database': [
      { DATABASE_URL: undefined },
      /^Kubernetes needs a PostgreSQL database, but \S+\.env has no DATABASE_URL$/,
    ],
    'a database on this machine': [{ DATABASE_URL: 'postgres://a:b@localhost/svc' }, /^the server of DATABASE_URL in /],
    'a database at a socket': [{ DATABASE_URL: 'postgres:///svc?host=/run' }, /^the server of DATABASE_URL in /],
    'a database of the compose file': [
      { DATABASE_URL: 'postgres://a:b@%2Fsrv%2Fdb/svc' },
      /^the server of DATABASE_URL in /,
    ],
    'agents in containers': [{ SANDBOX: 'container' }, /^SANDBOX(=container)? in /],
    'an invalid size': [{ KUBERNETES_VOLUME: '20 GB' }, /^KUBERNETES_VOLUME in \S+ must be a size such as 20Gi/],
    'no key': [{ SECRETS_KEY: '' }, /^SECRETS_KEY is not set in /],
    'an invalid setting': [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL in /],
  }
  for (const [name, [settings, sentence]] of Object.entries(refused))
    test(`are not written with ${name}`, async (t) => {
      const given = Object.entries({ ...SETTINGS, ...settings }).flatMap(([key, value]) =>
        value === undefined ? [] : [[key, value] as const],
      )
      await assert.rejects(generate(t, Object.fromEntries(given)), { message: sentence })
    })

  test('come with warnings about what pods cannot reach', async (t) => {
    const { warnings } = await generate(t, {
      ...SETTINGS,
      SVC_IMAGE: '',
      WEB_HOST: 'localhost:8080',
      OPENAI_BASE_URL: 'http://127.0.0.1:11434/v1',
    })
    assert.equal(warnings.length, 3)
    assert.match(
      warnings.join('\n'),
      /^nodes must have the image svc-host:\d.*\nOPENAI_BASE_URL names.*\nlinks will lead to localhost/,
    )
    assert.deepEqual((await generate(t)).warnings, [])
  })
})

test('objects depend on nothing but their input', () => {
  const input = {
    instance: 'demo',
    image: 'x/y:1',
    uid: 60_000,
    databasePort: 5432,
    hasCells: true,
    filesSize: '1Gi',
    digests: new Map<string, string>(),
  }
  assert.equal(JSON.stringify(kubernetesObjects(input)), JSON.stringify(kubernetesObjects({ ...input })))
})
