// Runs the pods of a generated Kubernetes manifest without Kubernetes: each container is a process in a sandbox with the mounts,
// the user, the variables and the settings that the manifest gives it, and with a read-only root. Only addresses differ.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, suite, test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { layout } from '../../src/core/layout.ts'
import { generateKubernetes } from '../../src/deploy/kubernetes-files.ts'
import { freePort } from '../support/free-port.ts'
import { needs } from '../support/needs.ts'
import { openPostgres, type Postgres } from '../support/postgres.ts'
import { tempDir } from '../support/temp.ts'

const ROOT = dirname(dirname(import.meta.dirname))

interface Container {
  readonly name: string
  readonly command: readonly string[]
  readonly args?: readonly string[]
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly volumeMounts: readonly { name: string; mountPath: string; subPath?: string; readOnly?: boolean }[]
}
interface Volume {
  readonly name: string
  readonly secret?: { readonly secretName: string }
}
interface PodObject {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly data?: Record<string, string>
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly securityContext: { readonly runAsUser: number }
        readonly initContainers?: readonly Container[]
        readonly containers: readonly Container[]
        readonly volumes: readonly Volume[]
      }
    }
  }
}

/** The files of the image: the programs of this machine, and svc. */
const IMAGE = [
  ...readdirSync('/', { withFileTypes: true }).flatMap((entry) => {
    const path = `/${entry.name}`
    if (entry.isSymbolicLink()) return ['--symlink', readlinkSync(path), path]
    return ['usr', 'bin', 'sbin', 'lib', 'lib64', 'etc'].includes(entry.name) ? ['--ro-bind', path, path] : []
  }),
  ...['--ro-bind', ROOT, '/svc', '--symlink', '/svc/bin/svc.js', '/svc-bin/svc'],
]

const parse = (path: string): PodObject[] =>
  parseAllDocuments(readFileSync(path, 'utf8')).map((document) => document.toJS())

suite('the pods of a Kubernetes manifest', needs('postgres', 'bubblewrap'), () => {
  const temp = tempDir({ after })
  const children: ChildProcess[] = []
  let postgres: Postgres | undefined
  /** Replaces what only a cluster has: Services, and ports of their own for two front doors. */
  let translate = (text: string): string => text
  const ports = new Map<string, number>()
  let objects: PodObject[] = []
  const files = (): PodObject => objects.find(({ kind }) => kind === 'StatefulSet') ?? assert.fail()

  function start(pod: PodObject, container: Container): ChildProcess {
    const { securityContext, volumes } = pod.spec.template.spec
    const mounts = container.volumeMounts.flatMap(({ name, mountPath, subPath = '', readOnly }) => {
      const secret = volumes.find((volume) => volume.name === name)?.secret
      const source = join(temp, 'volumes', secret ? secret.secretName : `${pod.metadata.name}-${name}`, subPath)
      if (!secret && (name !== 'data' || subPath === '')) mkdirSync(source, { recursive: true })
      return [readOnly ? '--ro-bind' : '--bind', source, mountPath]
    })
    const user = String(securityContext.runAsUser)
    const variables = container.env.flatMap(({ name, value }) => ['--setenv', name, translate(value)])
    const listen = ports.get(`${pod.metadata.name} ${container.name}`)
    const own = listen ? ['--setenv', `${container.name.toUpperCase()}_LISTEN`, `127.0.0.1:${listen}`] : []
    return spawn(
      'bwrap',
      [
        ...['--unshare-user', '--unshare-pid', '--uid', user, '--gid', user, '--cap-drop', 'ALL', '--die-with-parent'],
        ...[...IMAGE, '--dev', '/dev', '--proc', '/proc', '--dir', '/data/svc_demo', ...mounts, '--remount-ro', '/'],
        ...['--clearenv', '--setenv', 'PATH', '/svc-bin:/usr/bin:/bin', ...variables, ...own],
        ...['--', ...container.command, ...(container.args ?? [])],
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
  }

  async function serve(pod: PodObject, container: Container): Promise<void> {
    const child = start(pod, container)
    children.push(child)
    for await (const line of createInterface({ input: child.stdout ?? assert.fail() })) if (line === 'ready') return
    assert.fail(`${pod.metadata.name}: ${container.name} did not start`)
  }

  async function setUp(): Promise<void> {
    const pod = files()
    const [container = assert.fail()] = pod.spec.template.spec.initContainers ?? []
    const [code] = await once(start(pod, container), 'close')
    assert.equal(code, 0)
  }

  before(async () => {
    postgres = await openPostgres({ durable: false })
    const database = await postgres.createDatabase()
    mkdirSync(join(temp, 'instance'))
    const entries = new Map([
      ['DATABASE_URL', 'postgres://svc@db.example.com/svc'],
      ['SECRETS_KEY', 'k'.repeat(64)],
      ['CHANNEL_SECRET', 'c'.repeat(64)],
      ['WEB_HOST', 'chat.example.com'],
      ['LOG_LEVEL', 'warn'],
    ])
    const generated = await generateKubernetes({
      instance: 'demo',
      layout: layout(join(temp, 'instance')),
      entries,
      isForced: false,
      warn: () => undefined,
    })
    objects = parse(generated.manifest).filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
    for (const { metadata, data } of parse(generated.secrets)) {
      const text = Buffer.from(data?.['.env'] ?? '', 'base64').toString()
      mkdirSync(join(temp, 'volumes', metadata.name), { recursive: true })
      writeFileSync(
        join(temp, 'volumes', metadata.name, '.env'),
        text.replace(/^DATABASE_URL=.*$/m, `DATABASE_URL='${database}'`),
        { mode: 0o440 },
      )
    }
    const containers = objects.flatMap((pod) =>
      pod.spec.template.spec.containers.map(({ name }) => ({ pod: pod.metadata.name, name })),
    )
    const first = await freePort()
    for (const [at, { pod, name }] of containers.entries()) ports.set(`${pod} ${name}`, first + at)
    translate = (text) => {
      const [, service, local] = /^http:\/\/(?:svc-demo-(\w+):8080|127\.0\.0\.1:(\d+))$/.exec(text) ?? []
      const pod =
        objects.find(({ metadata }) => metadata.name === `svc-demo-${service}`)?.metadata.name ?? 'svc-demo-files'
      const name = service ?? DAEMON_PORTS[Number(local)]
      return name === undefined ? text : `http://127.0.0.1:${ports.get(`${pod} ${name}`) ?? assert.fail(text)}`
    }
    await setUp()
    await Promise.all(objects.flatMap((pod) => pod.spec.template.spec.containers.map((each) => serve(pod, each))))
  })

  after(async () => {
    for (const child of children) child.kill('SIGKILL')
    await postgres?.stop()
  })

  const frontDoor = (pod: string): string => `http://127.0.0.1:${ports.get(`${pod} proxyd`)}`

  /** Runs a command in a container, as `kubectl exec` does. */
  async function execute(name: string, ...args: string[]): Promise<string> {
    const container = files().spec.template.spec.containers.find((each) => each.name === name) ?? assert.fail()
    const child = start(files(), { ...container, command: ['svc'], args })
    let output = ''
    child.stdout?.on('data', (chunk) => {
      output += chunk
    })
    const [code] = await once(child, 'close')
    assert.equal(code, 0, output)
    return output
  }

  async function ask(front: string, chat: string): Promise<string> {
    const posted = await fetch(`${front}${chat}`, { method: 'POST', body: new URLSearchParams({ content: 'hello' }) })
    assert.equal(posted.status, 200)
    const { turn_id } = JSON.parse(await posted.text())
    return (await fetch(`${front}${chat}${turn_id}/sse`)).text()
  }

  test('answer at both front doors, and publish pages at the complete one', async () => {
    const issued = await execute('gated', 'token', 'demo', 'issue', 'chat', 'main')
    const chat = new URL(/^url: (\S+)$/m.exec(issued)?.[1] ?? '').pathname
    for (const pod of ['svc-demo-proxyd', 'svc-demo-files'])
      assert.match(await ask(frontDoor(pod), chat), /event: round_done\ndata: .*"status":"success"/, pod)
    writeFileSync(join(temp, 'volumes/svc-demo-files-data/web/pub/main/index.html'), 'hello from main')
    assert.equal(await (await fetch(`${frontDoor('svc-demo-files')}/pub/main/`)).text(), 'hello from main')
    assert.equal((await fetch(`${frontDoor('svc-demo-proxyd')}/pub/main/`)).status, 404)
  })

  test('take and send files at the complete front door, and say so at the other one', async () => {
    const issued = await execute('gated', 'token', 'demo', 'issue', 'chat', 'main', 'files')
    const chat = new URL(/^url: (\S+)$/m.exec(issued)?.[1] ?? '').pathname
    const upload = (pod: string): Promise<Response> => {
      const body = new FormData()
      body.append('file', new File(['hello'], 'a.txt'))
      return fetch(`${frontDoor(pod)}${chat}`, { method: 'POST', body })
    }
    const { user } = JSON.parse(await (await upload('svc-demo-files')).text())
    const path = `${chat}files/${user.files[0].id}`
    assert.equal(await (await fetch(`${frontDoor('svc-demo-files')}${path}`)).text(), 'hello')
    for (const refused of [await upload('svc-demo-proxyd'), await fetch(`${frontDoor('svc-demo-proxyd')}${path}`)])
      assert.deepEqual([refused.status, JSON.parse(await refused.text()).detail], [501, 'files are not available here'])
  })

  test('are alive and ready', async () => {
    for (const [name, port] of ports)
      for (const path of ['/livez', '/health'])
        assert.equal((await fetch(`http://127.0.0.1:${port}${path}`)).status, 200, `${name} ${path}`)
  })

  test('accept messages while the pod with the files is away, and answer when it is back', async () => {
    const issued = await execute('gated', 'token', 'demo', 'issue', 'chat', 'main', 'site')
    const chat = new URL(/^url: (\S+)$/m.exec(issued)?.[1] ?? '').pathname
    const names = objects.flatMap((pod) => pod.spec.template.spec.containers.map(() => pod))
    for (const [at, pod] of names.entries()) if (pod === files()) children[at]?.kill('SIGKILL')
    const answered = ask(frontDoor('svc-demo-proxyd'), chat)
    await setUp()
    await Promise.all(files().spec.template.spec.containers.map((each) => serve(files(), each)))
    assert.match(await answered, /"status":"success"/)
  })
})

/** In the pod with the files, by the port that the manifest gives it. */
const DAEMON_PORTS: Readonly<Record<number, string>> = {
  8080: 'proxyd',
  8081: 'routd',
  8082: 'webd',
  8083: 'gated',
  8084: 'runed',
  8086: 'onbod',
  8088: 'dashd',
}
