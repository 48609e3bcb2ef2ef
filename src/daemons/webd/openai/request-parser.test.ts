import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { processorTime } from '../../../../test/support/growth.ts'
import { Refusal } from '../../../lib/refusal.ts'
import { ParamRefusal } from '../../http/openai-errors.ts'
import { decodeFile, parseContent } from './content-parts.ts'
import { encodeTopic, type OpenaiRequest, parseChatRequest, parseResponseRequest } from './request-parser.ts'

const HI = { role: 'user', content: 'hi' }
const chat = (more: object, topic?: string): OpenaiRequest => parseChatRequest({ messages: [HI], ...more }, topic)
const responses = (more: object, topic?: string): OpenaiRequest => parseResponseRequest({ input: 'hi', ...more }, topic)

const refused = (parse: () => unknown, param: string, message: string): void =>
  assert.throws(parse, (error: unknown) => {
    assert.ok(error instanceof ParamRefusal, String(error))
    assert.deepEqual([error.param, error.message], [param, message])
    return true
  })

const REFUSED: readonly (readonly [object, string, string])[] = [
  [{ messages: undefined }, 'messages', 'messages is required, as a list'],
  [{ messages: [] }, 'messages', 'there is no message of the user'],
  [{ messages: [{ role: 'system', content: 'x' }] }, 'messages', 'there is no message of the user'],
  [{ messages: [{ role: 'user', content: ' \n' }] }, 'messages', 'the last message of the user is empty'],
  [{ messages: ['hi'] }, 'messages[0]', 'messages[0] must be an object'],
  [
    { messages: [HI, { role: 'toString' }] },
    'messages[1].role',
    'messages[1].role must be one of system, developer, user, assistant, tool, function',
  ],
  [
    { messages: [{ role: 'user', content: 7 }] },
    'messages[0].content',
    'messages[0].content must be a string or a list of parts',
  ],
  [
    { messages: [{ role: 'user', content: [{ type: 'video' }] }] },
    'messages[0].content[0].type',
    'parts of type "video" are not supported',
  ],
  [
    { messages: [{ role: 'user', content: [{ type: 'text' }] }] },
    'messages[0].content[0].text',
    'messages[0].content[0].text must be a string',
  ],
  [
    { messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'file-1' } }] }] },
    'messages[0].content[0].file',
    'messages[0].content[0].file has no content: send the file itself as a data URL or base64, not by the id of an upload',
  ],
  [{ n: 2 }, 'n', 'n must be 1: there is one answer'],
  [
    { tools: [{}] },
    'tools',
    'tools of the client are not supported: the agent has its own; send the request without tools',
  ],
  [
    { functions: [{}] },
    'functions',
    'functions of the client are not supported: the agent has its own; send the request without functions',
  ],
  [{ model: 7 }, 'model', 'model must be a string'],
  [{ stream: 'yes' }, 'stream', 'stream must be true or false'],
  [{ user: 'x'.repeat(513) }, 'user', 'user must be a string of at most 512 characters'],
  [{ conversation: 7 }, 'conversation', 'conversation must be the name of a topic'],
]

test('what cannot be answered is refused with the member and a sentence', () => {
  for (const [more, param, message] of REFUSED) refused(() => chat(more), param, message)
  refused(
    () => responses({ background: true }),
    'background',
    'background is not supported: wait for the answer, or stream it',
  )
  refused(() => responses({ input: 7 }), 'input', 'input is required, as a string or a list')
  refused(() => responses({ input: [] }), 'input', 'there is no message of the user')
  refused(() => responses({ input: '' }), 'input', 'the last message of the user is empty')
  for (const [type, shown] of [
    ['function_call_output', '"function_call_output"'],
    [{ toString: 1 }, '{"toString":1}'],
  ])
    refused(
      () => responses({ input: [{ type: 'reasoning' }, { type }] }),
      'input[1].type',
      `items of type ${shown} are not supported`,
    )
  refused(() => responses({ input: [{ type: 'reasoning' }, 'hi'] }), 'input[1]', 'input[1] must be an object')
})

test('members that mean nothing here are ignored', () => {
  const more = { temperature: 2, store: false, metadata: { a: 'b' }, tools: [], n: null, tool_choice: 'auto', x: 1 }
  const { last, isStream, hasUsage, user, choice } = chat({ ...more, user: 'x'.repeat(512) })
  assert.deepEqual(
    [last, isStream, hasUsage, user.length, choice],
    [{ role: 'user', text: 'hi', files: [] }, false, false, 512, { kind: 'resent' }],
  )
})

test('both endpoints give the same request', () => {
  const said = [
    { role: 'user', content: 'one' },
    { role: 'assistant', content: 'two' },
    { role: 'user', content: 'three' },
  ]
  const one = chat({
    messages: [{ role: 'system', content: 'Be brief.' }, ...said],
    stream: true,
    stream_options: { include_usage: true },
  })
  const typed = [
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'one' }] },
    { type: 'reasoning', summary: [] },
    { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'two', annotations: [] }] },
    { role: 'user', content: 'three' },
  ]
  assert.deepEqual(responses({ input: typed, instructions: 'Be brief.', stream: true }), one)
  assert.deepEqual(
    one.history.map(({ text }) => text),
    ['one', 'two'],
  )
  assert.equal(one.system, 'Be brief.')
})

test('the topic comes from the header, the conversation or the earlier response', () => {
  assert.deepEqual(chat({ conversation: 'a' }, 'caf%C3%A9').choice, { kind: 'named', topic: 'café' })
  assert.deepEqual(chat({}, '').choice, { kind: 'named', topic: null })
  assert.deepEqual(chat({}, '100%').choice, { kind: 'named', topic: '100%' })
  for (const conversation of ['news', { id: 'news' }])
    assert.deepEqual(responses({ conversation }).choice, { kind: 'named', topic: 'news' })
  const id = '01a1e3cd-522b-7bf7-a5d4-664d731e4ca5'
  for (const previous_response_id of [id, `resp_${id}`, `chatcmpl-${id}`])
    assert.deepEqual(responses({ previous_response_id }).choice, { kind: 'previous', round: id })
  assert.deepEqual(responses({ previous_response_id: 'other' }).choice, { kind: 'previous', round: '' })
  assert.throws(() => chat({}, 'x'.repeat(129)), /topic is longer than 128 characters/)
})

test('a reference to the answer before the message names its topic', () => {
  const id = '01a1e3cd-522b-7bf7-a5d4-664d731e4ca5'
  const reference = { type: 'item_reference', id: `msg_${id}` }
  const answer = { role: 'assistant', content: 'hello' }
  const choiceOf = (...input: object[]) => responses({ input }).choice
  assert.deepEqual(choiceOf(HI, answer, HI, reference, { type: 'reasoning' }, HI), { kind: 'referred', round: id })
  assert.deepEqual(choiceOf(HI, reference, HI, answer, HI), { kind: 'resent' })
  assert.deepEqual(choiceOf(HI, reference), { kind: 'resent' }, 'of the answer that is to be continued')
  for (const other of [7, 'rs_1', id]) assert.deepEqual(choiceOf(HI, { ...reference, id: other }, HI).kind, 'resent')
  const named = { input: [HI, reference, HI], conversation: 'news' }
  assert.deepEqual(responses(named).choice, { kind: 'named', topic: 'news' })
})

test('a topic comes back from its header as it was', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (topic) => {
      const header = encodeTopic(topic)
      assert.match(header, /^[\x21-\x7e]*$/)
      if (topic.isWellFormed() && !topic.includes('\0'))
        assert.deepEqual(chat({}, header).choice, { kind: 'named', topic: topic === '' ? null : topic })
    }),
  )
})

const DOT = 'iVBORw0KGgo='
const FILES: Record<string, readonly [object, object]> = {
  'an image as in chat completions': [
    { type: 'image_url', image_url: { url: `data:image/png;base64,${DOT}` } },
    { name: 'file.png', type: 'image/png' },
  ],
  'an image as in responses': [
    { type: 'input_image', image_url: `data:image/png;base64,${DOT}` },
    { name: 'file.png', type: 'image/png' },
  ],
  'a file with a data URL': [
    { type: 'file', file: { filename: 'a.txt', file_data: `data:text/plain;charset=utf-8;base64,${DOT}` } },
    { name: 'a.txt', type: 'text/plain' },
  ],
  'a file in base64 with line breaks': [
    { type: 'input_file', filename: 'a.bin', file_data: `${DOT.slice(0, 4)}\n${DOT.slice(4)}` },
    { name: 'a.bin', type: undefined },
  ],
  'an audio recording': [
    { type: 'input_audio', input_audio: { data: DOT, format: 'wav' } },
    { name: 'audio.wav', type: 'audio/wav' },
  ],
}

for (const [name, [part, expected]] of Object.entries(FILES))
  test(`${name} is decoded`, () => {
    const [file] = parseContent([part], 'content').files
    assert.ok(file)
    assert.deepEqual(decodeFile(file), { ...expected, bytes: Buffer.from(DOT, 'base64') })
  })

test('a file that is not sent along is refused with what to do', () => {
  const decode = (image_url: string) => () =>
    parseContent([{ type: 'input_image', image_url }], 'content').files.map(decodeFile)
  const url = 'files are not fetched from URLs: send the content itself, as a data URL or base64'
  refused(decode('https://example.org/a.png'), 'content[0].image_url', url)
  refused(decode('HTTP://127.0.0.1/'), 'content[0].image_url', url)
  refused(decode('data:text/plain,hello'), 'content[0].image_url', 'a data URL must be base64')
  for (const content of ['!', 'AAA=A', '='.repeat(4).concat('A')])
    refused(decode(`data:image/png;base64,${content}`), 'content[0].image_url', 'the content is not base64')
})

/** The least of three runs. */
function timeOf(work: () => void): number {
  const times = [1, 2, 3].map(() => {
    const start = processorTime()
    work()
    return processorTime() - start
  })
  return Math.min(...times)
}

test('no file takes much longer than base64 of its length', () => {
  const SIZE = 4 * 1024 * 1024
  const decode = (data: string): void => {
    try {
      decodeFile({ param: 'file', name: undefined, type: undefined, data })
    } catch (error) {
      assert.ok(error instanceof ParamRefusal, String(error))
    }
  }
  const usual = timeOf(() => decode('A'.repeat(SIZE)))
  const slow = ['A ', '\n', '=', 'A=', ' ='].map((unit) => unit.repeat(SIZE / unit.length))
  for (const data of [...slow, `data:${';'.repeat(SIZE)},`, `data:image/png;base64${','.repeat(SIZE)}`]) {
    const factor = timeOf(() => decode(data)) / usual
    assert.ok(factor < 8, `${JSON.stringify(data.slice(0, 30))}: ${factor}`)
  }
})

test('whatever a client sends, it is a request or a refusal', () => {
  const members = fc.record(
    {
      ...{ role: fc.constantFrom('user', 'assistant', 'system', 'x'), content: fc.jsonValue() },
      ...{ type: fc.constantFrom('message', 'reasoning', 'x') },
    },
    { requiredKeys: [] },
  )
  const items = fc.oneof(fc.array(fc.oneof(members, fc.jsonValue())), fc.jsonValue())
  const body = fc.record(
    { messages: items, input: items, stream: fc.jsonValue(), conversation: fc.jsonValue() },
    { requiredKeys: [] },
  )
  fc.assert(
    fc.property(body, fc.option(fc.string(), { nil: undefined }), (given, topic) => {
      for (const parse of [parseChatRequest, parseResponseRequest]) {
        try {
          const request = parse(given, topic)
          assert.ok(/\S/.test(request.last.text) || request.last.files.length > 0)
        } catch (error) {
          assert.ok(error instanceof Refusal, String(error))
        }
      }
    }),
  )
})
