import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ContainerSpec, containerBody } from './container-spec.ts'

const SPEC: ContainerSpec = {
  image: 'svc-host:1',
  command: ['perl', '-e', '1'],
  user: { uid: 60_000, gid: 60_000 },
  limits: { processes: 10, memoryBytes: 2 ** 30, files: 20, cpuMs: 1000 },
  isNetworkOpen: false,
  labels: { 'svc.folder': 'team' },
  mounts: [
    { source: '/data/groups/team', target: '/home/node', isReadOnly: false },
    { source: '/data/cells/1/ipc', target: '/run/ipc', isReadOnly: true },
  ],
  seccomp: '{}',
  usernsMode: undefined,
}

/** Reads a value by its keys. */
function at(body: object, ...keys: string[]): unknown {
  return keys.reduce<unknown>((value, key) => Reflect.get(Object(value), key), body)
}

test('a container has no network, no capability, a read-only root and its limits', () => {
  const body = containerBody(SPEC)
  const host = (key: string): unknown => at(body, 'HostConfig', key)
  assert.equal(at(body, 'User'), '60000:60000')
  assert.deepEqual([host('NetworkMode'), host('CapDrop'), host('ReadonlyRootfs')], ['none', ['ALL'], true])
  assert.deepEqual(host('SecurityOpt'), ['no-new-privileges', 'seccomp={}'])
  assert.deepEqual([host('Memory'), host('MemorySwap'), host('PidsLimit')], [2 ** 30, 2 ** 30, 11])
  assert.deepEqual([host('AutoRemove'), host('ShmSize'), host('IpcMode')], [true, 2 ** 28, 'private'])
  for (const key of ['Privileged', 'CapAdd', 'Devices', 'Binds', 'PidMode', 'UsernsMode', 'PortBindings'])
    assert.equal(host(key), undefined, key)
})

test('a container mounts only what is named, and never creates a source', () => {
  assert.deepEqual(at(containerBody(SPEC), 'HostConfig', 'Mounts'), [
    { Type: 'bind', Source: '/data/groups/team', Target: '/home/node', ReadOnly: false },
    {
      Type: 'bind',
      Source: '/data/cells/1/ipc',
      Target: '/run/ipc',
      ReadOnly: true,
      BindOptions: { NonRecursive: true },
    },
  ])
})

test('a container without limits has none, and one with little memory has as much as an engine needs', () => {
  const limits = { ...SPEC.limits, processes: Number.POSITIVE_INFINITY, memoryBytes: 1 }
  const body = containerBody({ ...SPEC, limits })
  assert.equal(at(body, 'HostConfig', 'PidsLimit'), undefined)
  assert.equal(at(body, 'HostConfig', 'Memory'), 6 * 1_048_576)
})
