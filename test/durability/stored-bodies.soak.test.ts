// Each acknowledged post is stored as one message with an identical body (P3).
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine } from '../support/host.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { post } from '../support/load.ts'
import { repeatableRandom } from '../support/repeatable-random.ts'

const MIB = 1_048_576

const KINDS: Readonly<Record<string, Uint8Array>> = {
  nothing: Buffer.alloc(0),
  'one byte': Buffer.from([0x80]),
  'all 256 bytes': Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
  'invalid UTF-8': Buffer.from([0xc3, 0x28, 0xa0, 0xa1, 0xed, 0xa0, 0x80, 0xf8]),
  'NUL alone': Buffer.from([0]),
  'NUL inside': Buffer.from('a\0b'),
  'a byte order mark': Buffer.from([0xef, 0xbb, 0xbf, 0x41]),
  'a UTF-16 byte order mark': Buffer.from([0xff, 0xfe, 0x41, 0x00]),
  'line ends': Buffer.from('a\r\nb\rc\n'),
  JSON: Buffer.from('{"content": 1, "a": "\\u0000"}  '),
  'the maximum size': Buffer.alloc(MIB, 0xfe),
}

const TYPES = ['application/octet-stream', 'application/json', 'text/plain; charset=latin1', 'multipart/form-data']

const digests = (bodies: readonly Uint8Array[]): string[] => bodies.map((body) => hash('sha256', body))

onEveryEngine('bodies posted to a link', (engine) => {
  test('are stored once each, unchanged and in order', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t, engine)
    const [hook, chat] = [await demo.mintHook('bodies'), await demo.mintChat('bodies')]
    const served = await demo.start()
    const generated = fc.sample(fc.uint8Array({ maxLength: 5000 }), { numRuns: 100, seed: by.below(2 ** 31) })
    const bodies = [...Object.values(KINDS), ...generated]
    for (const [index, body] of bodies.entries()) {
      const headers = { 'Content-Type': TYPES[index % TYPES.length] ?? '' }
      assert.equal((await post(served.hook(hook), { body, headers })).statusCode, 204)
    }
    assert.equal((await post(served.hook(hook), { body: Buffer.alloc(MIB + 1) })).statusCode, 413)
    // A chat stores bodies other than JSON and forms unchanged too, but rejects an empty body.
    const opaque = bodies.slice(0, 40).filter((body) => body.length > 0)
    for (const body of opaque) assert.equal((await post(served.chat(chat), { body })).statusCode, 200)
    await served.kill()

    const stored = async (link: typeof hook) => (await demo.inbound(link)).map(({ content }) => content)
    assert.deepEqual(digests(await stored(hook)), digests(bodies))
    assert.deepEqual(digests(await stored(chat)), digests(opaque))
  })
})

suite('the test for bodies itself', () => {
  test('detects a body that was decoded and encoded as text', () => {
    for (const kind of ['one byte', 'all 256 bytes', 'invalid UTF-8', 'the maximum size']) {
      const body = KINDS[kind] ?? assert.fail(kind)
      assert.notDeepEqual(digests([Buffer.from(Buffer.from(body).toString('utf8'))]), digests([body]))
    }
  })
})
