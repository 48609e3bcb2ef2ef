import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseRpcLine } from './rpc-line.ts'

const request = (more: string): Buffer =>
  Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":${more}}}}`)

test('a line that is nested too deeply or has too many values gets an error with the limit', () => {
  const deep = (levels: number) => request('['.repeat(levels - 3) + ']'.repeat(levels - 3))
  const wide = (values: number) => request(`[${'1,'.repeat(values - 8)}1]`)
  for (const line of [deep(64), wide(20_000)]) assert.equal(parseRpcLine(line).kind, 'request')
  for (const [line, why] of [
    [deep(65), 'is nested deeper than 64 levels'],
    [wide(20_001), 'has more than 20000 values'],
    [Buffer.from('{"jsonrpc"'), 'is not JSON'],
  ] as const)
    assert.deepEqual(parseRpcLine(line), {
      kind: 'fault',
      fault: { id: null, code: -32700, message: `parse error: line ${why}` },
    })
})
