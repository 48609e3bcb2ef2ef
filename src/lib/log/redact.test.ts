import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { digestOf, redact, redactJson } from './redact.ts'

const TOKEN = 'Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE'
const BEARER = `eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJnaXRodWI6MSJ9.${'s1_-'.repeat(21)}`
const HEX_48 = '0123456789abcdef'.repeat(3)
const HEX_64 = '0123456789abcdef'.repeat(4)

const SHOWN: Record<string, readonly [text: string, shown: string]> = {
  'a token alone': [TOKEN, digestOf(TOKEN)],
  'a link': [`see https://a.example/chat/${TOKEN}/ now`, `see https://a.example/chat/${digestOf(TOKEN)}/ now`],
  'two tokens': [`${TOKEN},${TOKEN}`, `${digestOf(TOKEN)},${digestOf(TOKEN)}`],
  'a token at the end of a sentence': [`it is ${TOKEN}.`, `it is ${digestOf(TOKEN)}.`],
  'a token that Markdown stresses': [`__${TOKEN}__ and -${TOKEN}`, `__${digestOf(TOKEN)}__ and -${digestOf(TOKEN)}`],
  'a proof of a token': [`/chat/~${TOKEN}.${TOKEN}/`, `/chat/~${digestOf(TOKEN)}.${digestOf(TOKEN)}/`],
  'a bearer': [`Bearer ${BEARER}`, 'Bearer <bearer>'],
  'a bearer before more of the same sentence': [`${BEARER}.Next`, '<bearer>.Next'],
  'a channel secret': [`secret=${HEX_64}`, `secret=${digestOf(HEX_64)}`],
  'the token of a registration': [`token ${HEX_48};`, `token ${digestOf(HEX_48)};`],
  'a run one letter short of a token': [TOKEN.slice(1), TOKEN.slice(1)],
  'a run one letter longer than a token': [`a${TOKEN}`, `a${TOKEN}`],
  'a last letter that no token has': [`${TOKEN.slice(0, -1)}B`, `${TOKEN.slice(0, -1)}B`],
  'a UUID': ['0198c3a4-5b6d-7e8f-9a0b-1c2d3e4f5a6b', '0198c3a4-5b6d-7e8f-9a0b-1c2d3e4f5a6b'],
  'a digest of another length': ['0123456789abcdef'.repeat(2), '0123456789abcdef'.repeat(2)],
  'plain words': ['there is no group team/support', 'there is no group team/support'],
}

suite('redact', () => {
  for (const [what, [text, shown]] of Object.entries(SHOWN)) test(what, () => assert.equal(redact(text), shown))

  test('finds a token after a JSON escape', () => {
    for (const before of ['\n', '\t', '"', '\\', '\u0007', '\u2028é', '/'])
      assert.deepEqual(JSON.parse(redactJson(JSON.stringify({ said: `${before}${TOKEN}` }))), {
        said: `${before}${digestOf(TOKEN)}`,
      })
  })

  const bytes = (length: number) =>
    fc.uint8Array({ minLength: length, maxLength: length }).map((all) => Buffer.from(all))
  const token = bytes(32).map((all) => all.toString('base64url'))
  const hex = fc.oneof(bytes(24), bytes(32)).map((all) => all.toString('hex'))
  const bearer = fc
    .tuple(token, token, token)
    .map(([kid, payload, signature]) => `${btoa(`{"kid":"${kid}"}`).replace(/=+$/, '')}.${payload}.${signature}${kid}`)
  const separator = fc.oneof(fc.constantFrom(' ', '/', '"', '\n', '\\', '?t=', '](', '`', '\u0000'), fc.string())

  test('leaves no credential in any text that delimits it', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(separator, fc.oneof(token, hex, bearer))), separator, (parts, end) => {
        const text = parts.map(([before, secret]) => `${before} ${secret} `).join('') + end
        const [plain, json] = [redact(text), redactJson(JSON.stringify(text))]
        for (const [, secret] of parts) assert.ok(!plain.includes(secret) && !json.includes(secret), secret)
        assert.equal(JSON.parse(json), plain)
      }),
    )
  })

  test('does not change text without long runs of letters', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 42, unit: 'binary' }), (text) => {
        assert.equal(redact(text), text)
        assert.equal(redactJson(JSON.stringify(text)), JSON.stringify(text))
      }),
    )
  })

  test('does not change its own output', () => {
    fc.assert(
      fc.property(fc.string({ size: 'large' }), token, (text, secret) => {
        const once = redact(`${text} ${secret}`)
        assert.equal(redact(once), once)
      }),
    )
  })

  test('takes linear time', () => {
    const MIB = 1_048_576
    for (const piece of [
      '-eyJ',
      'eyJ.',
      '-',
      '_-a',
      'a',
      `${TOKEN}.`,
      'a'.repeat(42).concat(' '),
      '\\n',
      '\\u00e4',
      '~.',
    ]) {
      const text = piece.repeat(MIB / piece.length)
      const started = performance.now()
      redact(text)
      redactJson(text)
      assert.ok(performance.now() - started < 2000, piece)
    }
  })
})
