import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Args, shapeOf } from './usage.ts'

test('a usage line gives places and flags', () => {
  const { places, flags } = shapeOf(
    'invite <instance> create <glob> [<note>] [<more>…] --daily|-d <cents> [--max-uses <n>] [--force]',
  )
  assert.deepEqual(
    places.map((place) => (place.kind === 'word' ? place.text : [place.name, place.optional, place.many])),
    [['instance', false, false], 'create', ['glob', false, false], ['note', true, false], ['more', true, true]],
  )
  assert.deepEqual(
    flags.map(({ name, key, short, takesValue, required }) => [name, key, short, takesValue, required]),
    [
      ['daily', 'daily', 'd', true, true],
      ['max-uses', 'maxUses', undefined, true, false],
      ['force', 'force', undefined, false, false],
    ],
  )
})

test('what a line has behind -- is typed there', () => {
  const { places, flags } = shapeOf('run --allow <list> [<word>] -- <command>…')
  assert.deepEqual(
    places.map((place) => place.kind === 'value' && [place.name, place.optional, place.many, place.behind]),
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

test('the types of the arguments come from the line', () => {
  // Compiles only while the types are right; what is optional may be left out, what is not may not.
  const args: Args<'x <instance> add <spec> [<suffix>] [<daemon>…] --daily|-d <cents> [--max-uses|-n <n>] [--force]'> =
    {
      instance: 'demo',
      spec: 'team',
      daemon: ['webd'],
      daily: '5',
      force: false,
    }
  const maxUses: string | undefined = args.maxUses
  assert.equal(maxUses, undefined)
})
