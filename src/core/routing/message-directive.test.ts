import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  COMMANDS,
  type DirectiveSender,
  type MessageDirective,
  mayUseDirectives,
  parseDirective,
  stripDirective,
} from './message-directive.ts'

const plain: MessageDirective = { kind: 'plain' }
const command = (name: string, rest = '', topic?: string) => ({
  kind: 'command',
  name,
  rest,
  ...(topic ? { topic } : {}),
})

const TEXTS: Record<string, [string, object]> = {
  'a sentence is plain': ['hello there', plain],
  'nothing is plain': ['', plain],
  '@name alone chooses a folder': ['@support', { kind: 'sticky_folder', name: 'support' }],
  '@ alone goes back': [' @ ', { kind: 'sticky_folder' }],
  'a path may be chosen': ['@team/support', { kind: 'sticky_folder', name: 'team/support' }],
  '#name alone chooses a topic': ['#bills', { kind: 'sticky_topic', name: 'bills' }],
  '# alone goes back': ['#', { kind: 'sticky_topic' }],
  '@name with text is for that folder': ['@support why?', { kind: 'folder', name: 'support', rest: 'why?' }],
  '#name with text is for that topic': ['#bills how much?', { kind: 'topic', name: 'bills', rest: 'how much?' }],
  'a text may go on in the next line': ['#bills\nhow\nmuch?', { kind: 'topic', name: 'bills', rest: 'how\nmuch?' }],
  'a topic may be of any script': ['#счета сколько', { kind: 'topic', name: 'счета', rest: 'сколько' }],
  'a heading is plain': ['# Title', plain],
  'an address of mail is plain': ['joe@example.org', plain],
  'a name with a comma is plain': ['@joe, look', plain],
  'a path that climbs is plain': ['@../main hello', plain],
  '/new starts afresh': ['/new', command('new')],
  '/new may have a text': ['/new what now?', command('new', 'what now?')],
  '/new may have a topic': ['/new #bills', command('new', '', 'bills')],
  '/new may have both': ['/new #bills how much?', command('new', 'how much?', 'bills')],
  '\\new is the same': ['\\new hello', command('new', 'hello')],
  'no other command has a backslash': ['\\stop', plain],
  'a command may name whom it is for': ['/new@svc_bot hello', command('new', 'hello')],
  'a command may have capitals': ['/Stop', command('stop')],
  'a word that only starts like a command is plain': ['/newish', plain],
  'an unknown command is plain': ['/say x', plain],
  'a path is plain': ['/etc/new', plain],
  '/ping alone is a command': ['/ping', command('ping')],
  '/status alone is a command': [' /status\n', command('status')],
  '/status with a text is plain': ['/status thinking', plain],
  '/stop with a text is plain': ['/stop it', plain],
  '/help with a text is plain': ['/help me', plain],
  '/chatid with a text is plain': ['/chatid please', plain],
  '/root has a text': ['/root do it', command('root', 'do it')],
  '/approve has an id': ['/approve a1', command('approve', 'a1')],
  '/gate has its own words': ['/gate add team/* 3', command('gate', 'add team/* 3')],
  'a tag before it is left out': ['[voice] /new hello', command('new', 'hello')],
  'a name before it is left out': ['@Bot /ping', command('ping')],
  'a tag and a name are left out': [
    '[voice] @bot: #bills how much?',
    { kind: 'topic', name: 'bills', rest: 'how much?' },
  ],
  'the own name alone is a folder like any': ['@bot', { kind: 'sticky_folder', name: 'bot' }],
  'the own name before a text leaves it plain': ['@bot hello', plain],
  'a name that only starts like the own is another': [
    '@botany hello',
    { kind: 'folder', name: 'botany', rest: 'hello' },
  ],
}
for (const [sentence, [text, steering]] of Object.entries(TEXTS)) {
  test(`steering: ${sentence}`, () => assert.deepEqual(parseDirective(text, { assistantName: 'bot' }), steering))
}

test('steering: any text is read without a throw, and what it has to say is its end', () => {
  const start = fc.constantFrom('', '@', '#', '/', '\\', '[x] ', '@bot ', ...COMMANDS.map((name) => `/${name} `))
  fc.assert(
    fc.property(start, fc.string({ unit: 'grapheme' }), (head, tail) => {
      const text = head + tail
      const read = parseDirective(text, { assistantName: 'bot' })
      if ('rest' in read) assert.ok(text.trim().endsWith(read.rest))
      if (read.kind === 'folder' || read.kind === 'topic') assert.notEqual(read.rest, '')
      assert.ok(text.includes(stripDirective(text, { folder: 'main', topic: 'x', assistantName: 'bot' })))
    }),
  )
})

const SPEAKERS: Record<string, [DirectiveSender, boolean]> = {
  'a person in a chat': [{ jid: 'telegram:1', sender: 'telegram:7' }, true],
  'a visitor of a link': [{ jid: 'web:main', sender: 'anon:1' }, true],
  'a mention': [{ jid: 'slack:C1', sender: 'slack:U1', envelope: { verb: 'mention' } }, true],
  'a webhook': [{ jid: 'hook:main/ci', sender: 'ci' }, false],
  'a schedule': [{ jid: 'telegram:1', sender: 'timed', envelope: { verb: 'message', task_id: 't' } }, false],
  'a schedule of its own session': [{ jid: 'telegram:1', sender: 'timed-isolated:t' }, false],
  'an agent that delegates': [{ jid: 'team', sender: 'delegate' }, false],
  'a sender that a tool made up': [{ jid: 'telegram:1', sender: 'injected:telegram:7' }, false],
  'what a tool injects': [
    { jid: 'telegram:1', sender: 'telegram:7', envelope: { verb: 'message', from_turn: 'x' } },
    false,
  ],
  'a reaction': [{ jid: 'telegram:1', sender: 'telegram:7', envelope: { verb: 'like' } }, false],
  'what is not trusted': [{ jid: 'telegram:1', sender: 'telegram:7', envelope: { verb: 'untrusted' } }, false],
}
for (const [sentence, [speaker, may]] of Object.entries(SPEAKERS)) {
  test(`steering: ${sentence} ${may ? 'steers' : 'never steers'}`, () => assert.equal(mayUseDirectives(speaker), may))
}

const BODIES: Record<string, [text: string, folder: string, topic: string, body: string]> = {
  'without the topic that brought it there': ['#bills how much?', 'team', 'bills', 'how much?'],
  'with a topic that did not': ['#1 is the best', 'team', '', '#1 is the best'],
  'without the folder that brought it there': ['@support why?', 'team/support', '', 'why?'],
  'with a name that did not': ['@joe why?', 'team', '', '@joe why?'],
  'without /new': ['/new #bills how much?', 'team', 'bills', 'how much?'],
  'without /root': ['/root do it', 'main', '', 'do it'],
  'whole where it is plain': ['  /status thinking', 'team', '', '  /status thinking'],
}
for (const [sentence, [text, folder, topic, body]] of Object.entries(BODIES)) {
  test(`steering: the agent is shown a message ${sentence}`, () =>
    assert.equal(stripDirective(text, { folder, topic }), body))
}
