import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isBlind, isTooLong, parseErrorBody } from './provider-error.ts'

const TOO_LONG = {
  OpenAI: {
    error: {
      message:
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
    },
  },
  'OpenAI, code alone': { error: { message: 'no', code: 'context_length_exceeded' } },
  'llama.cpp': { error: { code: 400, message: 'no', type: 'exceed_context_size_error', n_ctx: 256 } },
  'llama.cpp before it had a type': {
    error: { code: 500, message: 'the request exceeds the available context size', type: 'server_error' },
  },
  'vLLM, no member error': {
    object: 'error',
    message: "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    type: 'BadRequestError',
    code: 400,
  },
  'LM Studio': {
    error: 'Trying to keep the first 9000 tokens. However, the model is loaded with context length of only 4096 tokens',
  },
  Anthropic: { error: { message: 'prompt is too long: 201000 tokens > 200000 maximum' } },
  Gemini: {
    error: { message: 'The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)' },
  },
  'Text Generation Inference': { error: 'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096' },
}

for (const [server, body] of Object.entries(TOO_LONG))
  test(`recognises the error of ${server} for a conversation that is too long`, () => {
    assert.ok(isTooLong(parseErrorBody(JSON.stringify(body))))
  })

test('does not take other errors for a conversation that is too long', () => {
  for (const message of [
    'Invalid value for tool_choice',
    'max_tokens is too large',
    'too many tokens per minute; please reduce your message size',
    'the token is not valid',
    '',
  ])
    assert.ok(!isTooLong({ message, code: 'invalid_request_error', type: 'invalid_request_error' }), message)
})

test('reads the error message in every form that endpoints use', () => {
  assert.deepEqual(parseErrorBody('{"error": {"message": "no", "code": "x", "type": "y"}}'), {
    message: 'no',
    code: 'x',
    type: 'y',
  })
  assert.deepEqual(parseErrorBody('{"error": {"message": "no", "code": 400}}'), { message: 'no' })
  assert.deepEqual(parseErrorBody('{"error": "no"}'), { message: 'no' })
  assert.deepEqual(parseErrorBody('{"message": "no"}'), { message: 'no' })
  assert.deepEqual(parseErrorBody('<html>\nno'), { message: '<html>' })
  assert.deepEqual(parseErrorBody('{"error": {}}'), { message: 'no reason given' })
  assert.deepEqual(parseErrorBody(''), { message: 'no reason given' })
  assert.equal(parseErrorBody('x'.repeat(201)).message.length, 200)
})

test('returns a message for any response body', () => {
  const body = fc.oneof(
    fc.string(),
    fc.anything().map((value) => JSON.stringify({ error: value }) ?? ''),
    fc.json(),
  )
  fc.assert(
    fc.property(body, (text) => {
      const error = parseErrorBody(text)
      assert.ok(typeof error.message === 'string')
      assert.equal(typeof isTooLong(error), 'boolean')
    }),
  )
})

const BLIND = [
  'Invalid content type. image_url is only supported by certain models.',
  'No endpoints found that support image input',
  '/models/small is not a multimodal model',
  'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj',
  'This model does not support images',
  "Model 'small' doesn't support vision",
  'Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`',
  "'messages.1.content' : value must be a string, content must be a string",
  'Image input is not enabled for this model',
]
const OTHERS = [
  'You uploaded an unsupported image. Please make sure your image is valid.',
  'Could not process image',
  'the image is too large',
  'model not found',
]

test('recognises the errors of models that cannot see, but not those of a single image', () => {
  for (const message of BLIND) assert.ok(isBlind({ message }), message)
  for (const message of OTHERS) assert.ok(!isBlind({ message }), message)
})
