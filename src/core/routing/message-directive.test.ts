import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  CHAT_COMMANDS,
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
  '@name alone selects a folder': ['@support', { kind: 'sticky_folder', name: 'support' }],
  '@ alone resets the folder': [' @ ', { kind: 'sticky_folder' }],
  '@path alone selects a folder': ['@team/support', { kind: 'sticky_folder', name: 'team/support' }],
  '#name alone selects a topic': ['#bills', { kind: 'sticky_topic', name: 'bills' }],
  '# alone resets the topic': ['#', { kind: 'sticky_topic' }],
  '@name with text is for that folder': ['@support why?', { kind: 'folder', name: 'support', rest: 'why?' }],
  '#name with text is for that topic': ['#bills how much?', { kind: 'topic', name: 'bills', rest: 'how much?' }],
  'the text may continue on the next line': [
    '#bills\nhow\nmuch?',
    { kind: 'topic', name: 'bills', rest: 'how\nmuch?' },
  ],
  'a topic may use any script': ['#счета сколько', { kind: 'topic', name: 'счета', rest: 'сколько' }],
  'a heading is plain': ['# Title', plain],
  'an e-mail address is plain': ['joe@example.org', plain],
  'a name with a comma is plain': ['@joe, look', plain],
  'a path with .. is plain': ['@../main hello', plain],
  '/new is a command': ['/new', command('new')],
  '/new may have a text': ['/new what now?', command('new', 'what now?')],
  '/new may have a topic': ['/new #bills', command('new', '', 'bills')],
  '/new may have both': ['/new #bills how much?', command('new', 'how much?', 'bills')],
  '\\new is the same': ['\\new hello', command('new', 'hello')],
  'no other command has a backslash': ['\\stop', plain],
  'a command may name the bot': ['/new@svc_bot hello', command('new', 'hello')],
  'a command ignores case': ['/Stop', command('stop')],
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
  '/gate has arguments': ['/gate add team/* 3', command('gate', 'add team/* 3')],
  'a tag before a command is ignored': ['[voice] /new hello', command('new', 'hello')],
  "the agent's name before a command is ignored": ['@Bot /ping', command('ping')],
  'a tag and a name are both ignored': [
    '[voice] @bot: #bills how much?',
    { kind: 'topic', name: 'bills', rest: 'how much?' },
  ],
  "the agent's name alone selects a folder": ['@bot', { kind: 'sticky_folder', name: 'bot' }],
  "the agent's name before plain text is ignored": ['@bot hello', plain],
  "a name that only starts with the agent's name is a folder": [
    '@botany hello',
    { kind: 'folder', name: 'botany', rest: 'hello' },
  ],
}
for (const [sentence, [text, directive]] of Object.entries(TEXTS)) {
  test(`directives: ${sentence}`, () => assert.deepEqual(parseDirective(text, { assistantName: 'bot' }), directive))
}

test('directives: parses any text without throwing, and the rest is its end', () => {
  const start = fc.constantFrom('', '@', '#', '/', '\\', '[x] ', '@bot ', ...CHAT_COMMANDS.map((name) => `/${name} `))
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

const SENDERS: Record<string, [DirectiveSender, boolean]> = {
  'a person in a chat': [{ jid: 'telegram:1', sender: 'telegram:7' }, true],
  'a visitor of a link': [{ jid: 'web:main', sender: 'anon:1' }, true],
  'a mention': [{ jid: 'slack:C1', sender: 'slack:U1', envelope: { verb: 'mention' } }, true],
  'a webhook': [{ jid: 'hook:main/ci', sender: 'ci' }, false],
  'a task': [{ jid: 'telegram:1', sender: 'timed', envelope: { verb: 'message', task_id: 't' } }, false],
  'an isolated task': [{ jid: 'telegram:1', sender: 'timed-isolated:t' }, false],
  'an agent that delegates': [{ jid: 'team', sender: 'delegate' }, false],
  'an injected sender': [{ jid: 'telegram:1', sender: 'injected:telegram:7' }, false],
  'an injected message': [
    { jid: 'telegram:1', sender: 'telegram:7', envelope: { verb: 'message', from_turn: 'x' } },
    false,
  ],
  'a reaction': [{ jid: 'telegram:1', sender: 'telegram:7', envelope: { verb: 'like' } }, false],
  'an untrusted message': [{ jid: 'telegram:1', sender: 'telegram:7', envelope: { verb: 'untrusted' } }, false],
}
for (const [name, [sender, mayUse]] of Object.entries(SENDERS)) {
  test(`directives: ${name} ${mayUse ? 'may' : 'may not'} use them`, () =>
    assert.equal(mayUseDirectives(sender), mayUse))
}

const BODIES: Record<string, [text: string, folder: string, topic: string, body: string]> = {
  'without the topic that routed it': ['#bills how much?', 'team', 'bills', 'how much?'],
  'with a topic that did not route it': ['#1 is the best', 'team', '', '#1 is the best'],
  'without the folder that routed it': ['@support why?', 'team/support', '', 'why?'],
  'with a name that did not route it': ['@joe why?', 'team', '', '@joe why?'],
  'without /new': ['/new #bills how much?', 'team', 'bills', 'how much?'],
  'without /root': ['/root do it', 'main', '', 'do it'],
  'unchanged if it is plain': ['  /status thinking', 'team', '', '  /status thinking'],
}
for (const [sentence, [text, folder, topic, body]] of Object.entries(BODIES)) {
  test(`directives: the agent sees the message ${sentence}`, () =>
    assert.equal(stripDirective(text, { folder, topic }), body))
}
