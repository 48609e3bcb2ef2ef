import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHostFault } from './host-fault.ts'
import { Refusal, TransientRefusal } from './refusal.ts'

test('faults of the machine are told from others', () => {
  const withCode = (code: string): Error => Object.assign(new Error(code), { code })
  for (const code of ['ENOSPC', 'EDQUOT', 'EAGAIN', 'EMFILE', 'ENOMEM', 'ETOOMANYREFS'])
    assert.ok(isHostFault(withCode(code)), code)
  for (const code of ['ENOENT', 'EACCES', 'E2BIG', 'ERR_INVALID_ARG_TYPE'])
    assert.ok(!isHostFault(withCode(code)), code)
  assert.ok(isHostFault(new TransientRefusal('busy')))
  assert.ok(isHostFault(new Refusal('unavailable', 'the disk is full')))
  assert.ok(!isHostFault(new Refusal('conflict', 'a symbolic link')))
  for (const other of [undefined, 'ENOSPC', new TypeError('x')]) assert.ok(!isHostFault(other))
})
