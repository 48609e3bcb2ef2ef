import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { seccompFilter } from './seccomp.ts'

const ALLOW = 0x7fff_0000
const ARCHES = { x64: 0xc000_003e, arm64: 0xc000_00b7 } as const
const { EPERM, ENOSYS, EAFNOSUPPORT } = constants.errno

interface Call {
  readonly arch?: number
  readonly number: number
  readonly args?: readonly number[]
}

/** Runs the program as the kernel does and checks that every jump stays inside. */
function judge(program: Buffer, { arch, number, args = [] }: Call): number {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(number >>> 0, 0)
  data.writeUInt32LE(arch ?? ARCHES.x64, 4)
  for (const [at, arg] of args.entries()) data.writeBigUInt64LE(BigInt(arg), 16 + 8 * at)
  let value = 0
  for (let at = 0; ; at++) {
    assert.ok(at * 8 < program.length, 'it ran past its end')
    const [code, yes, no] = [program.readUInt16LE(at * 8), program.readUInt8(at * 8 + 2), program.readUInt8(at * 8 + 3)]
    const operand = program.readUInt32LE(at * 8 + 4)
    if (code === 0x06) return operand
    if (code === 0x20) value = data.readUInt32LE(operand)
    else if (code === 0x54) value = (value & operand) >>> 0
    else if (code === 0x15) at += value === operand ? yes : no
    else if (code === 0x35) at += value >= operand ? yes : no
    else if (code === 0x45) at += (value & operand) !== 0 ? yes : no
    else assert.fail(`unknown instruction ${code}`)
  }
}

const refusal = (errno: number): number => 0x0005_0000 | errno

suite('the system-call filter', () => {
  const x64 = seccompFilter('x64') ?? assert.fail('there is one')
  const arm64 = seccompFilter('arm64') ?? assert.fail('there is one')
  const ask = (number: number, ...args: number[]): number => judge(x64, { number, args })

  test('allows ordinary calls', () => {
    for (const number of [0, 1, 9, 57, 59, 60, 202, 257, 302]) assert.equal(ask(number), ALLOW)
  })

  test('refuses ptrace, keyrings, mounts and io_uring', () => {
    for (const number of [101, 250, 248, 165, 272 + 36]) assert.equal(ask(number), refusal(EPERM), String(number))
    for (const number of [425, 426, 427, 435]) assert.equal(ask(number), refusal(ENOSYS), String(number))
  })

  test('refuses calls of another architecture and of the x32 mode', () => {
    assert.equal(judge(x64, { arch: 0x4000_0003, number: 1 }), refusal(ENOSYS))
    assert.equal(ask(0x4000_0000), refusal(ENOSYS))
    assert.equal(ask(0x3fff_ffff), ALLOW)
    assert.equal(ask(0x4000_0065), refusal(ENOSYS))
  })

  test('allows unix, IP and routing netlink sockets', () => {
    for (const family of [1, 2, 10]) assert.equal(ask(41, family, 1, 0), ALLOW)
    assert.equal(ask(41, 16, 3, 0), ALLOW)
    assert.equal(ask(41, 16, 3, 9), refusal(EAFNOSUPPORT))
    for (const family of [0, 3, 17, 38, 40, 44]) assert.equal(ask(41, family, 1, 0), refusal(EAFNOSUPPORT))
  })

  test('refuses raw IP sockets whatever flags come with the type', () => {
    for (const family of [2, 10]) {
      assert.equal(ask(41, family, 3, 1), refusal(EPERM))
      assert.equal(ask(41, family, 3 | 0o2000000 | 0o4000, 255), refusal(EPERM))
      assert.equal(ask(41, family, 2 | 0o2000000, 17), ALLOW)
    }
  })

  test('allows only unix socket pairs', () => {
    assert.equal(ask(53, 1, 1, 0), ALLOW)
    assert.equal(ask(53, 2, 1, 0), refusal(EAFNOSUPPORT))
  })

  test('refuses exactly the namespace flags of clone and unshare', () => {
    for (const call of [56, 272]) {
      for (const flag of [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
        assert.equal(ask(call, flag | 17), refusal(EPERM), flag.toString(16))
      assert.equal(ask(call, 0x003d0f00), ALLOW)
    }
  })

  test('refuses terminal input injection by the low 32 bits of the request', () => {
    assert.equal(ask(16, 0, 0x5412), refusal(EPERM))
    assert.equal(ask(16, 0, 0x1_0000_5412), refusal(EPERM))
    assert.equal(ask(16, 0, 0x541c), refusal(EPERM))
    for (const request of [0x5411, 0x5413, 0x541b]) assert.equal(ask(16, 0, request), ALLOW)
  })

  test('uses the call numbers of arm64', () => {
    const { arm64: arch } = ARCHES
    const there = (number: number, ...args: number[]): number => judge(arm64, { arch, number, args })
    for (const number of [117, 219, 40, 268]) assert.equal(there(number), refusal(EPERM))
    assert.equal(there(198, 40, 1, 0), refusal(EAFNOSUPPORT))
    assert.equal(there(220, 0x10000000), refusal(EPERM))
    for (const number of [63, 64, 221, 101]) assert.equal(there(number), ALLOW)
  })

  test('returns for every call', () => {
    const word = fc.integer({ min: 0, max: 0xffff_ffff })
    fc.assert(
      fc.property(word, word, fc.array(word, { maxLength: 6 }), (arch, number, args) => {
        for (const program of [x64, arm64]) assert.ok(judge(program, { arch, number, args }) > 0)
      }),
    )
  })

  test('is undefined on an unsupported architecture', () => {
    assert.equal(seccompFilter('riscv64'), undefined)
  })
})
