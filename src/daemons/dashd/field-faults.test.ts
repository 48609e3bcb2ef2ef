import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { Refusal } from '../../lib/refusal.ts'
import type { FormField } from '../../web/dash/form.ts'
import { placeFaults, withoutCommands } from './field-faults.ts'

const TARGET: FormField = { name: 'target_folder', label: 'Delivers to' }
const SUFFIX: FormField = { name: 'jid_suffix', label: 'Suffix' }
const LEAF: FormField = { name: 'leaf', label: 'Folder', inputNames: ['folder'] }

interface Placed {
  readonly refusal: Refusal
  readonly fields: readonly FormField[]
  readonly typed?: Readonly<Record<string, string>>
  readonly ofFields: Readonly<Record<string, string>>
  readonly rest?: readonly string[]
}

const CASES: Readonly<Record<string, Placed>> = {
  'each sentence at its field, under its label': {
    refusal: new Refusal('invalid', 'jid_suffix is too short; target_folder is required'),
    fields: [TARGET, SUFFIX],
    ofFields: { jid_suffix: 'Suffix is too short.', target_folder: 'Delivers to is required.' },
  },
  'not at a field whose name only begins like it': {
    refusal: new Refusal('invalid', 'jid_suffixes are unknown'),
    fields: [TARGET, SUFFIX],
    ofFields: {},
    rest: ['Jid_suffixes are unknown.'],
  },
  'by the name that the message has for a field': {
    refusal: new Refusal('invalid', 'folder must not be empty'),
    fields: [LEAF, SUFFIX],
    ofFields: { leaf: 'Folder must not be empty.' },
  },
  'with the rest of the message and its hint': {
    refusal: new Refusal('invalid', 'jid_suffix has a blank; letters are allowed', 'choose another'),
    fields: [TARGET, SUFFIX],
    ofFields: { jid_suffix: 'Suffix has a blank. Letters are allowed. Choose another.' },
  },
  'at the only field whose text it quotes': {
    refusal: new Refusal('forbidden', 'issue_chat_link: not permitted on team/sub (no row allows it)'),
    fields: [TARGET, SUFFIX],
    typed: { target_folder: 'team/sub', jid_suffix: 'site' },
    ofFields: { target_folder: 'Not permitted on team/sub (no row allows it).' },
  },
  'at no field if it quotes two': {
    refusal: new Refusal('conflict', 'web:team/site is taken', 'choose another suffix'),
    fields: [TARGET, SUFFIX],
    typed: { target_folder: 'site', jid_suffix: 'site' },
    ofFields: {},
    rest: ['web:team/site is taken.', 'Choose another suffix.'],
  },
  'at no field if what was typed is a part of a word': {
    refusal: new Refusal('conflict', 'this form was sent before'),
    fields: [TARGET, SUFFIX],
    typed: { target_folder: 'for', jid_suffix: '' },
    ofFields: {},
    rest: ['This form was sent before.'],
  },
  'at the only field of a form, if it is about what was typed': {
    refusal: new Refusal('invalid', 'a name is missing'),
    fields: [SUFFIX],
    ofFields: { jid_suffix: 'A name is missing.' },
  },
}

suite('faults of a form are placed', () => {
  for (const [name, { refusal, fields, typed, ofFields, rest = [] }] of Object.entries(CASES))
    test(name, () => {
      const placed = placeFaults(refusal, fields, typed)
      assert.deepEqual(Object.fromEntries(placed.ofFields), ofFields)
      assert.deepEqual(placed.rest, rest)
      assert.equal(placed.text, [...Object.values(ofFields), ...rest].join(' '))
    })
})

test('a hint with a command is for people with a shell; others are for everybody', () => {
  const refusal = new Refusal('not_found', 'there is no group a', 'svc group demo list shows them')
  assert.equal(withoutCommands(refusal).hint, undefined)
  assert.equal(withoutCommands(refusal).message, refusal.message)
  const shown = withoutCommands(refusal, (text) => text.replace('svc', 'npx svc'))
  assert.equal(shown.hint, 'npx svc group demo list shows them')
  const plain = new Refusal('invalid', 'no', 'choose another name in /srv/svc')
  assert.equal(withoutCommands(plain), plain)
})
