import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readChatBody, readFormMessage, readTopic, storableContentType } from './chat-body.ts'

const JSON_TYPE = 'application/json'
const FORM_TYPE = 'application/x-www-form-urlencoded'

function read(body: string | Uint8Array, type: string | undefined = JSON_TYPE, isHook = false) {
  const { content, topic, content_type } = readChatBody(Buffer.from(body), type, isHook)
  return { content: Buffer.from(content).toString(), topic, content_type }
}

const MULTIPART = 'multipart/form-data; boundary=x'

/** Each part has a name, a content and an optional header. */
function parts(...fields: readonly (readonly string[])[]): string {
  const written = fields.map(([name = '', content = '', header]) => {
    const head = `Content-Disposition: form-data; name="${name}"${header === undefined ? '' : `\r\n${header}`}`
    return `--x\r\n${head}\r\n\r\n${content}\r\n`
  })
  return `${written.join('')}--x--\r\n`
}

const no = (body: string | Uint8Array, code: 'invalid' | 'wrong_type' = 'invalid', type = JSON_TYPE): void => {
  assert.throws(() => read(body, type), isRefusal(code), String(body).slice(0, 60))
}

suite('the body of a POST to a chat', () => {
  test('accepts JSON with content and an optional topic', () => {
    const plain = 'text/plain; charset=utf-8'
    assert.deepEqual(read('{"content":"hi"}'), { content: 'hi', topic: null, content_type: plain })
    assert.deepEqual(read('{"topic":"bills","content":"hi"}'), { content: 'hi', topic: 'bills', content_type: plain })
    for (const topic of ['""', 'null']) assert.equal(read(`{"content":"hi","topic":${topic}}`).topic, null)
  })

  test('keeps content unchanged: spaces, line breaks, any character, NUL', () => {
    for (const content of ['  a  ', 'a\r\nb\n', '\ufeffa', '\u0000a', 'e\u0301', '\u202e', '😀', '<script>'])
      assert.equal(read(JSON.stringify({ content })).content, content)
  })

  test('has line feeds where browsers write CRLF into forms, and no other change', () => {
    const content = ' a\r\nb\rc\n\r\n'
    assert.equal(read(new URLSearchParams({ content }).toString(), FORM_TYPE).content, ' a\nb\rc\n\n')
    assert.equal(read(parts(['content', content]), MULTIPART).content, ' a\nb\rc\n\n')
  })

  test('JSON that is not an object is 400', () => {
    for (const body of ['[]', '1', 'null', '"hi"', 'true', '[{"content":"hi"}]']) no(body)
  })

  test('missing, non-text or empty content is 400', () => {
    for (const body of [
      '{}',
      '{"topic":"a"}',
      '{"content":null}',
      '{"content":5}',
      '{"content":{}}',
      '{"content":["a"]}',
    ])
      no(body)
    for (const content of ['', ' ', '\n\t ', ' '.repeat(1_000_000)]) no(JSON.stringify({ content }))
  })

  test('the last of two fields with the same name counts', () => {
    assert.equal(read('{"content":"first","content":"last"}').content, 'last')
  })

  test('deep, wide and odd JSON is handled cheaply', () => {
    assert.throws(() => read(`${'['.repeat(100_000)}`), isRefusal('invalid'))
    const nested = `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`
    assert.throws(() => read(`{"content":"hi","x":${nested}}`), isRefusal('invalid', 'nested deeper'))
    const wide = Array.from({ length: 100_000 }, (_, at) => `"k${at}":${at}`).join(',')
    assert.throws(() => read(`{${wide},"content":"hi"}`), isRefusal('invalid', 'has more than 1000 values'))
    assert.equal(read(`{"content":"hi","a":1e400,"b":-0,"c":${'9'.repeat(10_000)}}`).content, 'hi')
  })

  test('fields such as __proto__ have no special meaning', () => {
    no('{"__proto__":{"content":"hi"}}')
    assert.equal(
      read('{"__proto__":{"topic":"x","polluted":1},"constructor":{"prototype":{}},"content":"hi"}').topic,
      null,
    )
    assert.equal(Reflect.get({}, 'polluted'), undefined)
    assert.equal(Reflect.get(Object.prototype, 'topic'), undefined)
  })

  test('almost-JSON is 400', () => {
    for (const body of ['{"content":"a"} x', '{"content":"a"}{}', '// a\n{"content":"a"}', '{"content":NaN}', ''])
      no(body)
    for (const body of ['\ufeff\ufeff{"content":"a"}', "{'content':'a'}", '{"content":"a",}', '{"content":"a\nb"}'])
      no(body)
  })

  test('a byte order mark before JSON is skipped, one in the content is kept', () => {
    assert.equal(read('\ufeff{"content":"\ufeffa"}').content, '\ufeffa')
    const event = '\ufeff{"action":"opened"}'
    assert.equal(read(event, JSON_TYPE, true).content, event)
  })

  test('JSON that is not UTF-8 is 400; a lone surrogate becomes the replacement character', () => {
    no(Buffer.from('7b22636f6e74656e74223a22ff227d', 'hex'))
    assert.equal(read('{"content":"a\\ud800b"}').content, 'a\ufffdb')
  })

  test('decodes a form; the first of two fields with the same name counts', () => {
    const form = (body: string) => read(body, FORM_TYPE)
    assert.deepEqual([form('content=a+b%20c&topic=t').content, form('content=a&topic=t').topic], ['a b c', 't'])
    assert.equal(form('content=a&content=b').content, 'a')
    assert.equal(form('content=%ZZ%C3%A4').content, '%ZZä')
    assert.equal(form('topic=&content=x').topic, null)
    assert.equal(form(`${'a=1&'.repeat(10_000)}content=x`).content, 'x')
    for (const body of ['', 'content', 'content=', 'content=+', 'content[]=a', 'topic=a'])
      no(body, 'invalid', FORM_TYPE)
    no(Buffer.from('content=\xff', 'latin1'), 'invalid', FORM_TYPE)
  })

  test('decodes a multipart form; the first of two fields with the same name counts', () => {
    const plain = 'text/plain; charset=utf-8'
    const sent = parts(['content', ' hi\r\n--there '], ['topic', 'bills'], ['content', 'again'], ['other', 'x'])
    assert.deepEqual(read(sent, MULTIPART), { content: ' hi\n--there ', topic: 'bills', content_type: plain })
    assert.equal(read(parts(['content', 'hi'], ['topic', '']), MULTIPART).topic, null)
    for (const body of [
      parts(['topic', 'x']),
      parts(['content', ' ']),
      parts(['content', 'a'], ['topic', 'x'.repeat(129)]),
    ])
      no(body, 'invalid', MULTIPART)
    for (const body of ['', 'content=a', '--x--\r\n']) no(body, 'invalid', MULTIPART)
    no(parts(['content', 'a']), 'wrong_type', `${MULTIPART}; charset=utf-16`)
    no(parts(['content', 'a', 'Content-Type: text/plain; charset=latin1']), 'wrong_type', MULTIPART)
    no(parts(['content', 'YQ==', 'Content-Transfer-Encoding: base64']), 'wrong_type', MULTIPART)
    no(Buffer.from(parts(['content', '\xff']), 'latin1'), 'invalid', MULTIPART)
    assert.equal(read(parts(['content', 'a', 'Content-Type: text/plain; charset=UTF-8']), MULTIPART).content, 'a')
  })

  test('a multipart form has at most 1000 parts', () => {
    const many = (count: number) => parts(['content', 'a'], ...Array.from({ length: count - 1 }, () => ['x', '']))
    assert.equal(read(many(1000), MULTIPART).content, 'a')
    assert.throws(() => read(many(1001), MULTIPART), isRefusal('invalid', 'the body has more than 1000 parts'))
    assert.equal(read(many(1001), MULTIPART, true).content, many(1001))
  })

  test('a file is 415 with a reason; an empty file input is ignored', () => {
    const file = ['upload"; filename="a.txt', 'text']
    for (const sent of [parts(['content', 'a'], file), parts(file), parts(['content"; filename="a', 'x'])])
      assert.throws(() => read(sent, MULTIPART), isRefusal('wrong_type', 'does not accept files'))
    assert.equal(read(parts(['content', 'a'], ['upload"; filename="', '']), MULTIPART).content, 'a')
    assert.throws(() => read(parts(['content', 'a'], ['upload"; filename="', 'x']), MULTIPART), isRefusal('wrong_type'))
  })

  test('a webhook’s multipart body without content is stored unchanged, including files', () => {
    const file = ['attachment"; filename="a.txt', 'text']
    for (const sent of [parts(['subject', 'a'], file), parts(['subject', 'a']), 'no form', '--x--'])
      assert.deepEqual(read(sent, MULTIPART, true), { content: sent, topic: null, content_type: MULTIPART })
    assert.equal(read(parts(['content', 'a'], ['topic', 't']), MULTIPART, true).topic, 't')
    assert.throws(
      () => read(parts(['content', 'a'], file), MULTIPART, true),
      isRefusal('wrong_type', 'does not accept files'),
    )
  })

  test('any other content type makes the body the content', () => {
    for (const type of [
      'multipart/mixed; boundary=x',
      'text/plain',
      'application/octet-stream',
      'application/jsonx',
      'application/problem+json',
      '',
    ])
      assert.equal(read('{"content":"a"}', type).content, '{"content":"a"}')
    const bytes = Uint8Array.from({ length: 256 }, (_, at) => at)
    assert.deepEqual(Buffer.from(readChatBody(bytes, undefined, false).content), Buffer.from(bytes))
    assert.throws(() => read('', 'text/plain'), isRefusal('invalid', 'empty'))
  })

  test('content types are case-insensitive, and only UTF-8 is accepted', () => {
    for (const type of ['APPLICATION/JSON; Charset="utf-8"', 'application/json;charset=utf8', 'application/json ; x=y'])
      assert.equal(read('{"content":"a"}', type).content, 'a')
    no('{"content":"a"}', 'wrong_type', 'application/json;charset=utf-16')
    no('content=a', 'wrong_type', `${FORM_TYPE}; charset=latin1`)
    assert.equal(read('a', `text/plain; x=${'y'.repeat(8192)}`).content_type, null)
  })

  test('a topic has at most 128 characters and no NUL, and is kept unchanged', () => {
    for (const topic of ['a\nb', '</topic>', '\u202eabc', '😀'.repeat(128), 'x'.repeat(128), ' '])
      assert.equal(read(JSON.stringify({ content: 'a', topic })).topic, topic)
    for (const topic of ['x'.repeat(129), 'x'.repeat(65_536), 'a\u0000b', 5, {}, ['a'], false])
      no(JSON.stringify({ content: 'a', topic }))
  })

  test('a webhook’s body without content at the chat URL is stored unchanged', () => {
    const event = '{"action":"opened","number":7}'
    assert.deepEqual(read(event, JSON_TYPE, true), { content: event, topic: null, content_type: JSON_TYPE })
    assert.equal(read('{"content":"hi","topic":"t"}', JSON_TYPE, true).topic, 't')
    for (const body of ['[1]', 'no JSON', '{"content":5}']) assert.equal(read(body, JSON_TYPE, true).content, body)
    assert.equal(read('a=b', FORM_TYPE, true).content, 'a=b')
  })

  test('a webhook may send an empty body', () => {
    for (const type of [JSON_TYPE, FORM_TYPE, MULTIPART, 'text/plain', undefined])
      assert.equal(readChatBody(new Uint8Array(), type, true).content.byteLength, 0)
  })

  test('JSON that is too deep or has more than 1000 values is 400, and stored unchanged for a webhook', () => {
    const deep = (levels: number) => `{"content":"a","b":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
    const wide = (values: number) => `{"content":"a","b":[${'1,'.repeat(values - 3)}1]}`
    for (const body of [deep(64), wide(1000)]) assert.equal(read(body).content, 'a')
    assert.throws(() => read(deep(65)), isRefusal('invalid', 'the body is nested deeper than 64 levels'))
    assert.throws(() => read(wide(1001)), isRefusal('invalid', 'the body has more than 1000 values'))
    for (const body of [deep(65), wide(1001)]) assert.equal(read(body, JSON_TYPE, true).content, body)
  })

  test('unknown fields are ignored', () => {
    assert.equal(read('{"content":"a","sender":"root","jid":"web:x","id":1}').content, 'a')
  })

  test('any body is accepted or refused', () => {
    const type = fc.oneof(fc.constantFrom(JSON_TYPE, FORM_TYPE, MULTIPART, undefined, 'text/plain'), fc.string())
    const piece = fc.oneof(
      fc.constantFrom(
        '--x',
        '--',
        '\r\n',
        '\r\n\r\n',
        'Content-Disposition: form-data; name="content"',
        '; filename="',
      ),
      fc.string(),
    )
    const bytes = fc.oneof(
      fc.uint8Array(),
      fc.json().map((text) => Buffer.from(text)),
      fc.array(piece, { maxLength: 20 }).map((pieces) => Buffer.from(pieces.join(''))),
    )
    fc.assert(
      fc.property(bytes, type, fc.boolean(), (body, header, isHook) => {
        try {
          const { content, topic } = readChatBody(body, header, isHook)
          assert.ok(isHook || content.byteLength > 0)
          assert.ok(topic === null || (topic.length > 0 && [...topic].length <= 128))
        } catch (error) {
          assert.ok(error instanceof Refusal, String(error))
        }
      }),
    )
  })

  test('JSON and both kinds of forms give the same result', () => {
    const text = fc
      .string({ unit: 'grapheme', minLength: 1 })
      .filter((value) => /\S/.test(value) && value.isWellFormed())
    const topic = fc.string({ unit: 'grapheme', maxLength: 60 }).filter((value) => !value.includes('\0'))
    fc.assert(
      fc.property(text, topic, (content, topic) => {
        const written = new URLSearchParams({ content, topic }).toString()
        assert.deepEqual(read(JSON.stringify({ content, topic })), read(written, FORM_TYPE))
        assert.equal(read(written, FORM_TYPE).content, content)
        fc.pre(!`${content}${topic}`.includes('--x'))
        assert.deepEqual(read(parts(['content', content], ['topic', topic]), MULTIPART), read(written, FORM_TYPE))
      }),
    )
  })
})

suite('metadata of a message', () => {
  const contextOf = (body: string, type = JSON_TYPE, isHook = false) =>
    readChatBody(Buffer.from(body), type, isHook).client_context
  const withMetadata = (metadata: unknown): string => JSON.stringify({ content: 'hi', metadata })

  test('is an object in JSON, its JSON in a form, and no part of the message', () => {
    const metadata = { plan: 'pro', 'order-id': 42, is_new: true }
    const text = JSON.stringify(metadata)
    assert.deepEqual(contextOf(withMetadata(metadata)), { metadata })
    assert.deepEqual(contextOf(new URLSearchParams({ content: 'hi', metadata: text }).toString(), FORM_TYPE), {
      metadata,
    })
    const field = (name: string, content: string) => ({
      name,
      headers: new Map<string, string>(),
      isFile: false,
      content: Buffer.from(content),
    })
    for (const hasFiles of [true, false]) {
      const message = readFormMessage([field('content', 'hi'), field('metadata', text)], hasFiles)
      assert.deepEqual(message.client_context, { metadata })
    }
    assert.deepEqual(readFormMessage([field('metadata', text)], true).client_context, { metadata })
    for (const none of [undefined, null, '', {}]) assert.equal(contextOf(withMetadata(none)), undefined)
  })

  test('is not read from the body of a webhook', () => {
    assert.equal(contextOf(withMetadata({ plan: 'pro' }), JSON_TYPE, true), undefined)
    assert.equal(Buffer.from(readChatBody(Buffer.from(withMetadata([1])), JSON_TYPE, true).content).toString(), 'hi')
  })

  test('has short values with plain names, and 4096 bytes in all', () => {
    const filler = 'x'.repeat(4096 - '{"a":""}'.length)
    assert.deepEqual(contextOf(withMetadata({ a: filler })), { metadata: { a: filler } })
    assert.deepEqual(contextOf(withMetadata({ ['k'.repeat(64)]: 1 })), { metadata: { ['k'.repeat(64)]: 1 } })
    const faults: [unknown, 'invalid' | 'too_large', string][] = [
      [[1], 'invalid', 'metadata must be a JSON object'],
      ['[1]', 'invalid', 'metadata must be a JSON object'],
      ['{', 'invalid', ''],
      [5, 'invalid', 'metadata must be a JSON object'],
      [{ a: `${filler}x` }, 'too_large', 'metadata has more than 4096 bytes'],
      [{ a: {} }, 'invalid', 'metadata.a must be a text, a number or a boolean'],
      [{ a: null }, 'invalid', 'metadata.a must be a text, a number or a boolean'],
      [{ 'a b': 1 }, 'invalid', 'names in metadata must be 1 to 64 letters, digits, "_", "." and "-"'],
      [{ ['k'.repeat(65)]: 1 }, 'invalid', 'names in metadata must be 1 to 64 letters, digits, "_", "." and "-"'],
    ]
    for (const [metadata, code, sentence] of faults)
      assert.throws(
        () => contextOf(withMetadata(metadata)),
        isRefusal(code, sentence),
        JSON.stringify(metadata).slice(0, 40),
      )
    const huge = '{"content":"hi","metadata":{"a":1e999}}'
    assert.throws(() => contextOf(huge), isRefusal('invalid', 'metadata.a must be a text, a number or a boolean'))
  })
})

test('a missing, null or empty topic is the main topic', () => {
  for (const topic of [undefined, null, '']) assert.equal(readTopic(topic), null)
})

test('a content type is stored if it is short and ASCII', () => {
  assert.equal(storableContentType('text/plain'), 'text/plain')
  for (const type of [undefined, '', 'a'.repeat(256), 'a\u0080', 'ä']) assert.equal(storableContentType(type), null)
})
