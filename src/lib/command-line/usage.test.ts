import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Args, parseUsage } from './usage.ts'

test('parses positional parts and flags', () => {
  const { parts, flags } = parseUsage(
    'invite <instance> create <glob> [<note>] [<more>…] --daily|-d <cents> [--max-uses <n>] [--file <path>…] [--force]',
  )
  assert.deepEqual(
    parts.map((part) => (part.kind === 'word' ? part.text : [part.name, part.optional, part.many])),
    [['instance', false, false], 'create', ['glob', false, false], ['note', true, false], ['more', true, true]],
  )
  assert.deepEqual(
    flags.map(({ name, key, short, takesValue, isRepeatable, required }) => [
      ...[name, key, short, takesValue, isRepeatable, required],
    ]),
    [
      ['daily', 'daily', 'd', true, false, true],
      ['max-uses', 'maxUses', undefined, true, false, false],
      ['file', 'file', undefined, true, true, false],
      ['force', 'force', undefined, false, false, false],
    ],
  )
})

test('parses parts after --', () => {
  const { parts, flags } = parseUsage('run --allow <list> [<word>] -- <command>…')
  assert.deepEqual(
    parts.map((part) => part.kind === 'value' && [part.name, part.optional, part.many, part.isAfterDoubleDash]),
    [
      ['word', true, false, false],
      ['command', false, true, true],
    ],
  )
  assert.deepEqual(
    flags.map(({ name }) => name),
    ['allow'],
  )
  const args: Args<'run --allow <list> -- <command>…'> = { allow: 'a', command: ['curl'] }
  assert.equal(args.command[0], 'curl')
})

test('derives argument types from the usage line', () => {
  // Compiles only if the types are right: optional arguments may be omitted, required ones may not.
  const args: Args<'x <instance> add <spec> [<suffix>] [<daemon>…] --daily|-d <cents> [--max-uses|-n <n>] [--file <path>…] [--force]'> =
    {
      instance: 'demo',
      spec: 'team',
      daemon: ['webd'],
      daily: '5',
      file: ['a.png'],
      force: false,
    }
  const maxUses: string | undefined = args.maxUses
  assert.equal(maxUses, undefined)
})
