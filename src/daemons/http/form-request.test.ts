import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { Hono } from 'hono'
import { isRefusal } from '../../../test/support/host.ts'
import { runs } from '../../../test/support/part.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readFormWithFiles } from './form-request.ts'

type Sent = Awaited<ReturnType<typeof readFormWithFiles>>

/** Reads a form as a handler does. */
async function read(body: string | FormData | URLSearchParams, type?: string, maxBytes = 1000): Promise<Sent> {
  const app = new Hono()
  const found = Promise.withResolvers<Sent>()
  app.post('/', async (c) => {
    await readFormWithFiles(c, maxBytes).then(found.resolve, found.reject)
    return c.body(null)
  })
  await app.request('/', { method: 'POST', body, ...(type === undefined ? {} : { headers: { 'Content-Type': type } }) })
  return found.promise
}

suite('a form with files', () => {
  test('has its fields, and each chosen file with its name and bytes', async () => {
    const form = new FormData()
    form.set('text', 'one\r\ntwo')
    form.set('chosen', new File([Buffer.of(0, 255)], 'a "b".bin'))
    form.set('empty', new File([], 'empty.txt'))
    const { fields, files } = await read(form)
    assert.deepEqual([...fields], [['text', 'one\r\ntwo']])
    assert.deepEqual(
      [...files].map(([field, { name, bytes }]) => [field, name, [...bytes]]),
      [
        ['chosen', 'a "b".bin', [0, 255]],
        ['empty', 'empty.txt', []],
      ],
    )
  })

  test('has no file for a field that a browser sends without one', async () => {
    const head = 'Content-Disposition: form-data; name="file"; filename=""\r\nContent-Type: application/octet-stream'
    const { files } = await read(`--x\r\n${head}\r\n\r\n\r\n--x--\r\n`, 'multipart/form-data; boundary=x')
    assert.equal(files.size, 0)
  })

  test('may be sent without files', async () => {
    const { fields, files } = await read(new URLSearchParams({ a: 'b' }))
    assert.deepEqual([[...fields], files.size], [[['a', 'b']], 0])
  })

  test('is refused if a field is given twice, it is too large, or of another type', async () => {
    const twice = new FormData()
    twice.append('a', '1')
    twice.append('a', '2')
    await assert.rejects(read(twice), isRefusal('invalid', 'the field "a" is given twice'))
    const large = new FormData()
    large.set('file', new File([Buffer.alloc(1001)], 'large'))
    await assert.rejects(read(large), isRefusal('too_large'))
    await assert.rejects(read('{}', 'application/json'), isRefusal('wrong_type'))
  })

  test('is refused with a sentence, whatever its bytes are', async () => {
    const type = 'multipart/form-data; boundary=x'
    const piece = fc.constantFrom(
      ...['--x', '--x--', '\r\n', 'Content-Disposition: form-data; name="a"', '; filename="f"', '"', 'text', '\0'],
    )
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 20 }), async (pieces) => {
        const sent = await read(pieces.join(''), type).catch((error: unknown) => error)
        if (sent instanceof Error) assert.ok(sent instanceof Refusal && sent.code === 'invalid', String(sent))
      }),
      { numRuns: runs(200, 2000) },
    )
    for (const wrong of ['multipart/form-data', 'multipart/form-data; boundary=', 'multipart/form-data; boundary="'])
      await assert.rejects(read('--x--', wrong), isRefusal('invalid', 'the form cannot be read'))
  })
})
