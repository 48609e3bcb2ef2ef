import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { z } from 'zod'
import { seccompProfile } from './seccomp.ts'

const Profile = z.object({
  defaultAction: z.string(),
  syscalls: z.array(
    z.object({
      names: z.array(z.string()),
      action: z.enum(['SCMP_ACT_ALLOW', 'SCMP_ACT_ERRNO']),
      errnoRet: z.number().optional(),
      args: z.array(z.object({ index: z.number(), value: z.number(), op: z.string() })).optional(),
    }),
  ),
})
const { defaultAction, syscalls } = Profile.parse(seccompProfile())

/** The conditions under which a call is allowed; `undefined` means always. */
function rulesOf(name: string) {
  return syscalls
    .filter(({ names, action }) => action === 'SCMP_ACT_ALLOW' && names.includes(name))
    .map(({ args }) => args)
}

suite('the system calls of a workload', () => {
  test('are denied unless listed', () => assert.equal(defaultAction, 'SCMP_ACT_ERRNO'))

  test('create local, IP and netlink sockets, but not AF_VSOCK or other families', () => {
    assert.deepEqual(
      rulesOf('socket'),
      [1, 2, 10, 16].map((value) => [{ index: 0, value, op: 'SCMP_CMP_EQ' }]),
    )
    assert.deepEqual(rulesOf('socketpair'), [[{ index: 0, value: 1, op: 'SCMP_CMP_EQ' }]])
  })

  test('create no socket that a filter cannot see', () => {
    for (const name of ['socketcall', 'io_uring_setup', 'io_uring_enter', 'io_uring_register'])
      assert.deepEqual(rulesOf(name), [], name)
  })

  test('create no namespaces or mounts', () => {
    assert.deepEqual(rulesOf('clone'), [[{ index: 0, value: 0x7e02_0000, op: 'SCMP_CMP_MASKED_EQ' }]])
    for (const name of ['clone3', 'unshare', 'setns', 'mount', 'umount2', 'pivot_root', 'open_tree', 'bpf', 'keyctl'])
      assert.deepEqual(rulesOf(name), [], name)
  })

  test('are unknown rather than forbidden where programs have a fallback', () => {
    const unknown = syscalls.filter(({ action }) => action === 'SCMP_ACT_ERRNO')
    assert.deepEqual(
      unknown.map(({ errnoRet }) => errnoRet),
      [38],
    )
    assert.ok(unknown[0]?.names.includes('clone3'))
  })

  test('are each listed once', () => {
    const plain = syscalls.flatMap(({ names, args }) => (args ? [] : names))
    assert.equal(new Set(plain).size, plain.length)
    for (const name of ['read', 'execve', 'futex', 'exit_group']) assert.deepEqual(rulesOf(name), [undefined])
  })
})
