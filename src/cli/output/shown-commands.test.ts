import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { sourceOf } from '../../lib/settings.ts'
import { commandWriter, programAnywhere, programHere } from './shown-commands.ts'

const NAMES = ['serve', 'group', 'user-secret', 'list']
const show = commandWriter(NAMES, () => ({ program: 'npx svc', asRoot: 'SVC_DATA_DIR=/x /opt/svc.js' }))

suite('commands in texts', () => {
  const texts: Record<string, string> = {
    'svc list': 'npx svc list',
    'run svc group demo list, then svc serve demo': 'run npx svc group demo list, then npx svc serve demo',
    '(svc user-secret demo list)': '(npx svc user-secret demo list)',
    'usage: svc serve <instance>': 'usage: npx svc serve <instance>',
    'sudo svc group demo rm x': 'sudo SVC_DATA_DIR=/x /opt/svc.js group demo rm x',
    "sudo -u 'ada' svc serve demo": "sudo -u 'ada' SVC_DATA_DIR=/x /opt/svc.js serve demo",
  }
  for (const [text, expected] of Object.entries(texts)) test(text, () => assert.equal(show(text), expected))

  const others = ['svc runs as root', 'svc: unknown command', '/srv/svc list', 'npx svc list', 'svc listed', 'svc']
  for (const text of others) test(`are not seen in: ${text}`, () => assert.equal(show(text), text))

  test('are as they are without a way to start svc', () => assert.equal(commandWriter(NAMES)('svc list'), 'svc list'))
})

test('a command names the data directory where its shell may lack it, and for root always', () => {
  assert.match(programAnywhere('/home/ada/.svc').program, /^SVC_DATA_DIR=\/home\/ada\/\.svc \S/)
  assert.match(programAnywhere("/home/a'da").program, /^SVC_DATA_DIR='\/home\/a'\\''da' \S/)
  assert.doesNotMatch(programAnywhere('/srv/data').program, /SVC_DATA_DIR/)
  const here = programHere(sourceOf('the environment', new Map([['SVC_DATA_DIR', '/home/ada/.svc']])))
  assert.doesNotMatch(here.program, /SVC_DATA_DIR/)
  assert.match(here.asRoot, /^SVC_DATA_DIR=\/home\/ada\/\.svc \//)
})
