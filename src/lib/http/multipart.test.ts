import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { Refusal } from '../refusal.ts'
import { type FormPart, parseMultipart } from './multipart.ts'

const TYPE = 'multipart/form-data; boundary=x'
const FIELD = 'Content-Disposition: form-data; name="a"'

function parse(body: string, type = TYPE): FormPart[] {
  return parseMultipart(Buffer.from(body), type, 10)
}

function shown(parts: readonly FormPart[]): [name: string, isFile: boolean, content: string][] {
  return parts.map(({ name, isFile, content }) => [name, isFile, Buffer.from(content).toString()])
}

suite('a multipart form', () => {
  test('reads the parts between its boundaries and ignores text around them', () => {
    const body = `preamble\r\n--x\r\n${FIELD}\r\n\r\n1\r\n--x \t\r\ncontent-disposition:Form-Data; NAME=b\r\n\r\n\r\n--x--epilogue`
    assert.deepEqual(shown(parse(body)), [
      ['a', false, '1'],
      ['b', false, ''],
    ])
    assert.deepEqual(parse('--x--'), [])
  })

  test('keeps every byte of a part', () => {
    const content = Buffer.from(Array.from({ length: 256 }, (_, at) => at))
    const body = Buffer.concat([Buffer.from(`--x\r\n${FIELD}\r\n\r\n`), content, Buffer.from('\r\n--x--\r\n')])
    assert.deepEqual(Buffer.from(parseMultipart(body, TYPE, 1)[0]?.content ?? []), content)
  })

  test('accepts a boundary of 1 to 70 characters, quoted or not', () => {
    const written = (boundary: string) => `--${boundary}\r\n${FIELD}\r\n\r\n1\r\n--${boundary}--\r\n`
    for (const boundary of ['a b', "'()+_,-./:=?", 'y'.repeat(70)])
      assert.equal(parse(written(boundary), `multipart/form-data; boundary="${boundary}"`).length, 1, boundary)
    for (const type of ['', '; boundary=', '; boundary=""', `; boundary=${'y'.repeat(71)}`, '; boundary="a "'])
      assert.throws(() => parse(written('y'), `multipart/form-data${type}`), isRefusal('invalid', 'boundary'), type)
  })

  test('is refused if it is incomplete or a part has no name', () => {
    const whole = `--x\r\n${FIELD}\r\n\r\n1\r\n--x--\r\n`
    assert.equal(parse(whole).length, 1)
    for (let end = 0; end < whole.length - 4; end++)
      assert.throws(() => parse(whole.slice(0, end)), isRefusal('invalid'), String(end))
    const heads = [
      '',
      'Content-Disposition: form-data',
      'Content-Disposition: attachment; name="a"',
      'no header',
      ' a: b',
    ]
    for (const head of heads) assert.throws(() => parse(`--x\r\n${head}\r\n\r\n1\r\n--x--`), isRefusal('invalid'), head)
  })

  test('limits the head of a part to 8192 bytes', () => {
    const padded = (length: number) =>
      `--x\r\n${FIELD}\r\nX: ${'y'.repeat(length - FIELD.length - 5)}\r\n\r\n1\r\n--x--\r\n`
    assert.equal(parse(padded(8192)).length, 1)
    assert.throws(() => parse(padded(8193)), isRefusal('invalid'))
  })

  test('is read as the platform writes it', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', ';', '=', ' ', 'ä', '😀', '-'), maxLength: 8 })
    // Without a name the platform writes a file like a text.
    const file = text.map((name) => `f${name}`)
    const field = fc.record({ name: text, value: text, file: fc.option(file, { nil: undefined }) })
    await fc.assert(
      fc.asyncProperty(fc.array(field, { maxLength: 6 }), async (fields) => {
        const form = new FormData()
        for (const { name, value, file } of fields) {
          if (file === undefined) form.append(name, value)
          else form.append(name, new File([value], file))
        }
        const sent = new Response(form)
        const type = sent.headers.get('content-type') ?? ''
        const parts = parseMultipart(new Uint8Array(await sent.arrayBuffer()), type, 10)
        assert.deepEqual(
          shown(parts).map(([, ...rest]) => rest),
          fields.map(({ value, file }) => [file !== undefined, value]),
        )
        assert.deepEqual(
          parts.map(({ name }) => name),
          fields.map(({ name }) => name.replaceAll('"', '%22')),
        )
      }),
    )
  })

  test('is read or refused in bounded time, whatever it contains', () => {
    const piece = fc.oneof(
      fc.constantFrom('--x', '--', '\r\n', '\r\n\r\n', FIELD, '; filename="', '"', ':', '\\', '\0'),
      fc.string({ unit: 'binary' }),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), fc.oneof(fc.constant(TYPE), fc.string()), (pieces, type) => {
        try {
          parse(pieces.join(''), type)
        } catch (error) {
          assert.ok(error instanceof Refusal, String(error))
        }
      }),
    )
    const unit = ['--x\r\n', '\r\n--', '\r\n\r\n', `--x\r\n${FIELD}`, '; a="\\"', ':', ' ']
    const started = performance.now()
    for (const one of unit)
      assert.throws(
        () => parseMultipart(Buffer.from(one.repeat(2 ** 20 / one.length)), TYPE, 1000),
        isRefusal('invalid'),
      )
    assert.ok(performance.now() - started < 2000)
  })
})
