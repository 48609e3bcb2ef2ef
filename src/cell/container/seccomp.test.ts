import assert from 'node:assert/strict'
import { test } from 'node:test'
import { REFUSED_CALLS } from '../bubblewrap/seccomp.ts'
import { agentSeccompProfile } from './seccomp.ts'

interface Rule {
  readonly names: readonly string[]
  readonly action: string
  readonly args?: readonly { readonly index: number; readonly value: number; readonly valueTwo?: number }[]
}

const { defaultAction, syscalls } = agentSeccompProfile() as { defaultAction: string; syscalls: Rule[] }
const allowed = syscalls.filter(({ action }) => action === 'SCMP_ACT_ALLOW')

test('a container may make no call that the filter of other cells refuses', () => {
  assert.equal(defaultAction, 'SCMP_ACT_ERRNO')
  const names = new Set(allowed.flatMap((rule) => rule.names))
  for (const name of [...REFUSED_CALLS, 'unshare', 'socketcall']) assert.ok(!names.has(name), name)
  for (const name of ['read', 'execve', 'sendmsg', 'signalfd4', 'pidfd_open']) assert.ok(names.has(name), name)
})

test('a container opens only unix and IP sockets, no raw ones, and the routing part of netlink', () => {
  const sockets = allowed.filter(({ names }) => names.includes('socket')).map(({ args }) => args)
  const conditions = sockets.map((args) => args?.map(({ index, value, valueTwo }) => [index, value, valueTwo]))
  const internet = (family: number, type: number) => [
    [0, family, undefined],
    [1, 0xf, type],
  ]
  assert.deepEqual(conditions, [
    [[0, 1, undefined]],
    internet(2, 1),
    internet(2, 2),
    internet(10, 1),
    internet(10, 2),
    [
      [0, 16, undefined],
      [2, 0, undefined],
    ],
  ])
  assert.ok(allowed.every(({ names, args }) => !names.includes('clone') || args?.[0]?.valueTwo === 0))
})
