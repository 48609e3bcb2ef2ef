import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { AnswerTarget } from './answer-targets.ts'
import { isAnswerUrl } from './route-tokens.ts'

const faultOf = (text: string) => AnswerTarget.safeParse(text).error?.issues[0]?.message

test('accepts https URLs and chats of platforms', () => {
  const longest = `https://a.example/${'x'.repeat(2048 - 18)}`
  for (const text of ['https://a.example', 'https://a.example:8443/x?y=1', 'https://[2606:4700::1]/', longest])
    assert.deepEqual([faultOf(text), isAnswerUrl(text)], [undefined, true], text)
  for (const text of ['telegram:group/1', 'sandbox:lobby', 'email:address/a@b.example'])
    assert.deepEqual([faultOf(text), isAnswerUrl(text)], [undefined, false], text)
})

test('says what is wrong with other texts', () => {
  const faults: Record<string, string> = {
    'http://a.example/': 'must be a URL that starts with https://',
    'HTTPS://a.example/': 'must be a URL that starts with https://',
    'https:a.example': 'must be a URL that starts with https://',
    'ftp://a.example/': 'must be a URL that starts with https://',
    'https://a b': 'must be a URL that starts with https://',
    'https://a.example/\n': 'must be a URL that starts with https://',
    'https://': 'must be a URL that starts with https://',
    'https://u:p@a.example/': 'must not have a user name or password',
    'https://a.example/#x': 'must not have a fragment',
    'https://a.example/#': 'must not have a fragment',
    [`https://a.example/${'x'.repeat(2049 - 18)}`]: 'is longer than 2048 characters',
    'web:main': 'must not be the chat of a link: links cannot answer to each other',
    'hook:main/ci': 'must not be the chat of a link: links cannot answer to each other',
    main: 'must be an https URL or a chat such as telegram:group/1',
    '': 'must be an https URL or a chat such as telegram:group/1',
  }
  for (const [text, fault] of Object.entries(faults))
    assert.ok(faultOf(text)?.includes(fault), `${text}: ${faultOf(text)}`)
})

test('accepts as a URL only what a request can be sent to as it is', () => {
  const text = fc.oneof(
    fc.string(),
    fc.string().map((rest) => `https://${rest}`),
    fc.webUrl({ withFragments: true, withQueryParameters: true, validSchemes: ['http', 'https'] }),
  )
  fc.assert(
    fc.property(text, (value) => {
      if (faultOf(value) !== undefined || !isAnswerUrl(value)) return
      const { protocol, username, password, hash, hostname } = new URL(value)
      assert.deepEqual([protocol, username, password, hash, hostname !== ''], ['https:', '', '', '', true])
    }),
    { numRuns: 500 },
  )
})
