import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { agentIdentity } from './agent-identity.ts'
import { identityFaults } from './group-config.ts'

const persona = (matter: string): string => `---\n${matter}\n---\n# Persona\n`
const identityOf = (
  group: { folder?: string; name?: string; config?: unknown },
  { text, assistantName = 'svc' }: { text?: string; assistantName?: string } = {},
) =>
  agentIdentity(
    {
      folder: group.folder ?? 'team/support',
      name: group.name ?? 'Desk',
      ...(group.config === undefined ? {} : { config: JSON.stringify(group.config) }),
    },
    { persona: text, assistantName },
  )

test('the name is that of the group, else that of its persona, else that of its folder', () => {
  const text = persona('name: Ada')
  assert.equal(identityOf({ name: 'Desk' }, { text }).name, 'Desk')
  assert.equal(identityOf({ name: 'support' }, { text }).name, 'Ada')
  assert.equal(identityOf({ name: 'support' }).name, 'support')
  assert.equal(identityOf({ name: 'support' }, { text: persona(`name: ${'x'.repeat(129)}`) }).name, 'support')
  assert.equal(identityOf({ folder: 'main', name: 'Main' }, { assistantName: 'demo' }).name, 'Main')
  assert.equal(identityOf({ folder: 'main', name: 'main' }, { assistantName: 'demo' }).name, 'demo')
  assert.equal(identityOf({ folder: 'main', name: 'main' }, { text, assistantName: 'demo' }).name, 'Ada')
})

test('a name is shown without characters that are invisible or turn it around', () => {
  assert.equal(identityOf({ name: 'Ada\u202egnp' }).name, 'Adagnp')
  assert.equal(identityOf({ name: 'support' }, { text: persona('name: \u2066Ada\u0085 \u2069') }).name, 'Ada')
  assert.equal(identityOf({ name: 'support' }, { text: persona('name: \u200b \u202e') }).name, 'support')
  assert.equal(identityOf({ name: ' ' }, { text: persona('name: Ada') }).name, 'Ada')
  assert.equal(identityOf({ name: '\u0646\u200c\u0645 👩🏽‍🔬' }).name, '\u0646\u200c\u0645 👩🏽‍🔬')
})

test('settings take precedence over the front matter, each for itself', () => {
  const text = persona(
    'picture: me.png\ncolour: "#00ff00"\ngreeting: Hello: you\nstarters:\n  - What is new?\n- \'Plan "my" week\'\nnext: 1\n- no',
  )
  assert.deepEqual(identityOf({}, { text }), {
    name: 'Desk',
    picture: 'me.png',
    colour: '#00ff00',
    greeting: 'Hello: you',
    starters: ['What is new?', 'Plan "my" week'],
  })
  const config = { picture: 'art/a.webp', colour: '#AABBCC', greeting: 'Hi\nthere', starters: ['One'] }
  assert.deepEqual(identityOf({ config }, { text }), { name: 'Desk', ...config })
  assert.equal(identityOf({ config: { greeting: 'Hi' } }, { text }).picture, 'me.png')
})

test('front matter that is no good counts as missing, and five starters as four', () => {
  const nothing = { name: 'Desk', picture: undefined, colour: undefined, greeting: undefined, starters: undefined }
  for (const matter of [
    'colour: red',
    'colour: "#1234567"',
    'picture: /etc/passwd',
    'picture: ../../x.png',
    'picture: a//b.png',
    `greeting: "${'x'.repeat(1001)}"`,
    'starters:',
    'starters: one',
    'starters:\n- \n',
    `starters:\n- ${'x'.repeat(201)}`,
    'starters:\n- \u200b',
    'greeting: |',
  ])
    assert.deepEqual(identityOf({}, { text: persona(matter) }), nothing, matter)
  const five = persona(`starters:\n${'- a\n'.repeat(5)}`)
  assert.deepEqual(identityOf({}, { text: five }).starters, ['a', 'a', 'a', 'a'])
  assert.deepEqual(identityOf({ config: { colour: 'red', starters: 'a' } }), nothing, 'rows from before the check')
})

test('any persona and any config give an identity', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.jsonValue(), (matter, config) => {
      const { name, starters = [] } = identityOf({ config, name: 'support' }, { text: persona(matter) })
      assert.ok(name.length > 0 && starters.length <= 4)
    }),
  )
})

test('a fault of a setting says what it must be', () => {
  const limits = {
    colour: '#123456',
    picture: `${'p'.repeat(251)}.png`,
    greeting: 'x'.repeat(1000),
    starters: ['a', 'b', 'c', 'x'.repeat(200)],
  }
  const faultsOf = (config: object) => identityFaults(JSON.stringify(config))
  assert.deepEqual(faultsOf(limits), {})
  assert.deepEqual(faultsOf({ runtime: 'demo' }), {})
  const all: [string, unknown, string][] = [
    ['colour', '#12345', 'must be "#" and six hexadecimal digits, such as #4f5bd5'],
    ['picture', './me.png', 'must be the path of an image in the workspace, such as me.png'],
    ['picture', `${limits.picture}x`, 'must be the path of an image in the workspace, such as me.png'],
    ['picture', 'a\u0007.png', 'must not contain control characters other than tab and newline'],
    ['greeting', ' ', 'must not be empty'],
    ['greeting', `${limits.greeting}x`, 'is longer than 1000 characters'],
    ['greeting', 'a\u001b[2J', 'must not contain control characters other than tab and newline'],
    ['starters', [], 'must not be empty'],
    ['starters', 'a', 'must be messages, each in a line, or a JSON array of them'],
    ['starters', ['a', 'b', 'c', 'd', 'e'], 'has more than 4 entries'],
    ['starters', [`${limits.starters[3]}x`], 'has a message that is longer than 200 characters'],
    ['starters', [''], 'has a message that must not be empty'],
    ['starters', ['a', ' \u200b'], 'has a message that must not be empty'],
    ['greeting', '\u200b', 'must not be empty'],
  ]
  for (const [key, value, fault] of all) assert.deepEqual(faultsOf({ [key]: value }), { [key]: fault })
})
