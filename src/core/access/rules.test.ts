import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { conditionsHold, parseConditions, parseRule, ruleMatches } from './rules.ts'

interface Case {
  rule: string
  tool: string
  params?: Record<string, string>
  matches: boolean
}

const CASES: Record<string, Case> = {
  'a name matches its tool': { rule: 'send', tool: 'send', matches: true },
  'a name matches no other tool': { rule: 'send', tool: 'send_file', matches: false },
  'names are case-sensitive': { rule: 'send', tool: 'Send', matches: false },
  'a star matches every tool': { rule: '*', tool: 'send', matches: true },
  'a star matches dots too': { rule: '*', tool: 'acl.list', matches: true },
  'a star inside a name matches any characters': { rule: 'inspect_*', tool: 'inspect_tasks', matches: true },
  'a star inside a name may match nothing': { rule: 'send*', tool: 'send', matches: true },
  'a star matches the dot of a resource': { rule: 'route*', tool: 'routes.list', matches: true },
  'a dot in a name matches only a dot': { rule: 'acl.list', tool: 'aclxlist', matches: false },
  'a deny rule matches as an allow rule does': { rule: '!send', tool: 'send', matches: true },
  'empty parentheses are ignored': { rule: 'send()', tool: 'send', matches: true },
  'blank parentheses are ignored': { rule: 'send( )', tool: 'send', matches: true },
  'a parameter must match': { rule: 'send(jid=web:a)', tool: 'send', params: { jid: 'web:a' }, matches: true },
  'another value does not match': { rule: 'send(jid=web:a)', tool: 'send', params: { jid: 'web:b' }, matches: false },
  'a star in a value matches slashes and colons': {
    rule: 'send(jid=telegram:*)',
    tool: 'send',
    params: { jid: 'telegram:user/1:2' },
    matches: true,
  },
  'a star in a value matches commas and parentheses': {
    rule: '!send(jid=evil*)',
    tool: 'send',
    params: { jid: 'evil,)' },
    matches: true,
  },
  'a missing parameter does not match': { rule: 'send(jid=telegram:*)', tool: 'send', matches: false },
  'a star for a value still requires the parameter': { rule: 'send(jid=*)', tool: 'send', matches: false },
  'a bare name requires the parameter': { rule: 'send(jid)', tool: 'send', params: { jid: '' }, matches: true },
  'a bare name fails without it': { rule: 'send(jid)', tool: 'send', params: { topic: 'x' }, matches: false },
  'an empty value matches only the empty value': {
    rule: 'send(topic=)',
    tool: 'send',
    params: { topic: 'x' },
    matches: false,
  },
  'an empty value matches the empty value': {
    rule: 'send(topic=)',
    tool: 'send',
    params: { topic: '' },
    matches: true,
  },
  'a value may contain an equals sign': { rule: 'send(q=a=b)', tool: 'send', params: { q: 'a=b' }, matches: true },
  'both of two parameters are required': { rule: 'send(a=1,b=2)', tool: 'send', params: { a: '1' }, matches: false },
  'two parameters that both match': { rule: 'send(a=1,b=2)', tool: 'send', params: { b: '2', a: '1' }, matches: true },
  'spaces around a parameter are ignored': {
    rule: 'send(a=1, b=2)',
    tool: 'send',
    params: { a: '1', b: '2' },
    matches: true,
  },
  'a parameter after ! must be absent': { rule: 'send(!topic)', tool: 'send', matches: true },
  'a parameter after ! must not be present': {
    rule: 'send(!topic)',
    tool: 'send',
    params: { topic: '' },
    matches: false,
  },
  'a value after ! must not match': {
    rule: 'send(!jid=web:*)',
    tool: 'send',
    params: { jid: 'web:a' },
    matches: false,
  },
  'another value after ! matches': { rule: 'send(!jid=web:*)', tool: 'send', params: { jid: 'x:a' }, matches: true },
  'an inherited object member does not count as a parameter': {
    rule: 'send(constructor)',
    tool: 'send',
    params: {},
    matches: false,
  },
}

const BROKEN: Record<string, string> = {
  'an empty text': '',
  'a lone !': '!',
  'two !': '!!send',
  'no closing parenthesis': 'send(jid=web:a',
  'no opening parenthesis': 'send)',
  'text after the parenthesis': 'send(jid)x',
  'a second pair of parentheses': 'send(a)(b)',
  'parentheses without a name': '(jid)',
  'an empty parameter': 'send(,jid)',
  'a comma at the end': 'send(jid,)',
  'a parameter without a name': 'send(=x)',
  'a parameter with a blank in its name': 'send(a b)',
  'a blank after the name': 'send ',
  'a line break after the name': 'send\n',
  'an mcp prefix, which belongs to acl rows': 'mcp:send',
  'a name longer than a pattern may be': 'a'.repeat(2000),
}

suite('a rule', () => {
  for (const [sentence, { rule, tool, params = {}, matches }] of Object.entries(CASES)) {
    test(`${sentence}: ${rule}`, () => {
      const parsed = parseRule(rule)
      assert.ok(parsed, 'the rule parses')
      assert.equal(parsed.text, rule)
      assert.equal(ruleMatches(parsed, tool, params), matches)
    })
  }

  for (const [sentence, rule] of Object.entries(BROKEN)) {
    test(`${sentence} does not parse, so a typo never widens a grant: ${rule.slice(0, 30)}`, () =>
      assert.equal(parseRule(rule), undefined))
  }

  test('matches a tool by name whether it allows, denies or has conditions', () => {
    const rules = ['send', '!send', 'reply', 'send(jid=tg:*)'].map(parseRule)
    assert.deepEqual(
      rules.map((rule) => rule?.matchesTool('send')),
      [true, true, false, true],
    )
  })

  test('denies only with a leading !', () => {
    assert.equal(parseRule('!send')?.isDeny, true)
    assert.equal(parseRule('send(!jid)')?.isDeny, false)
  })

  test('never throws on any text', () => {
    const text = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'ab!(),=*. ') }))
    fc.assert(
      fc.property(text, fc.dictionary(fc.string(), fc.string()), (rule, params) => {
        const parsed = parseRule(rule)
        if (parsed) ruleMatches(parsed, 'send', params)
        conditionsHold(parseConditions(rule) ?? [], params)
      }),
    )
  })
})
