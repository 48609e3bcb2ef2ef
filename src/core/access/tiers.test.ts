import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { bracketFault, defaultRules, SPECIFIED_TIERS } from '../../../test/support/tool-tiers.ts'
import {
  containsFolder,
  folderBaseName,
  mayReachFolder,
  parentFolderOf,
  selfAndAncestors,
  type Tier,
  tierOf,
  worldOf,
} from './tiers.ts'

const TIERS: Record<string, [folder: string, tier: Tier]> = {
  'the root is tier 0': ['main', 0],
  'a top-level folder is tier 1, not an operator': ['team', 1],
  'a name that starts like the root is not the root': ['mainly', 1],
  'a folder below the root is tier 1': ['main/a', 1],
  'a folder of a world is tier 1': ['team/a', 1],
  'two slashes make a guest': ['team/a/b', 2],
  'three slashes make a stranger': ['team/a/b/c', 3],
  'a deeper folder is also a stranger': ['a/b/c/d/e/f/g/h', 3],
}

suite('the position of a folder', () => {
  for (const [sentence, [folder, tier]] of Object.entries(TIERS)) {
    test(sentence, () => assert.equal(tierOf(folder), tier))
  }

  test('the world is the first segment', () => {
    assert.equal(worldOf('team/a/b'), 'team')
    assert.equal(worldOf('team'), 'team')
  })

  test('the base name is the last segment', () => {
    assert.equal(folderBaseName('team/a/b'), 'b')
    assert.equal(folderBaseName('team'), 'team')
  })

  test('the parent depends only on the path', () => {
    assert.equal(parentFolderOf('team/a/b'), 'team/a')
    assert.equal(parentFolderOf('team'), undefined)
    assert.equal(parentFolderOf('main'), undefined)
  })

  test('the ancestors are listed from the top down to the folder', () => {
    assert.deepEqual(selfAndAncestors('a/b'), ['a', 'a/b'])
    assert.deepEqual(selfAndAncestors('a/b/c'), ['a', 'a/b', 'a/b/c'])
    assert.deepEqual(selfAndAncestors('a'), ['a'])
  })
})

suite('containment', () => {
  const CASES: Record<string, [from: string, to: string, contained: boolean, reached: boolean]> = {
    'a folder contains itself': ['team', 'team', true, true],
    'a folder contains its children': ['team', 'team/a', true, true],
    'a folder contains its grandchildren': ['team', 'team/a/b', true, true],
    'a folder does not contain one whose name starts the same': ['team', 'teams', false, false],
    'a child does not contain its parent': ['team/a', 'team', false, false],
    'siblings do not contain each other': ['team/a', 'team/b', false, false],
    'the root reaches every folder, although no path is below it': ['main', 'team/a', false, true],
    'the root reaches the instance itself': ['main', '', false, true],
    'a folder below the root reaches only its own subtree': ['main/a', 'team', false, false],
    'no other folder reaches the instance itself': ['team', '', false, false],
  }
  for (const [sentence, [from, to, contained, reached]] of Object.entries(CASES)) {
    test(sentence, () => {
      assert.equal(containsFolder(from, to), contained)
      assert.equal(mayReachFolder(from, to), reached)
    })
  }
})

suite('brackets', () => {
  test('a tool without a bracket is for every tier', () => assert.equal(bracketFault('send', 3), undefined))

  test('a tool for tiers 0 to 2 is not for strangers', () => {
    assert.equal(bracketFault('post', 2), undefined)
    assert.equal(bracketFault('post', 3), 'the tool post is for tiers 0 to 2')
  })

  test('a tool for tiers 0 to 1 is not for guests', () => {
    assert.equal(bracketFault('add_route', 1), undefined)
    assert.equal(bracketFault('add_route', 2), 'the tool add_route is for tiers 0 to 1')
  })

  test('the host map is for the root only', () => {
    assert.equal(bracketFault('set_web_host', 0), undefined)
    assert.equal(bracketFault('set_web_host', 1), 'the tool set_web_host is for tier 0 only')
  })

  test('a tool outside the specification has no bracket', () => {
    for (const tool of ['acl.list', 'constructor', '__proto__', 'toString'])
      assert.equal(bracketFault(tool, 3), undefined)
  })

  test('submit_turn is a method, not a tool', () => assert.ok(!Object.hasOwn(SPECIFIED_TIERS, 'submit_turn')))

  const REGISTRATION_BRACKETS: Record<string, number | undefined> = {
    refresh_groups: 2,
    set_work: 2,
    list_acl: 1,
    get_web_host: 1,
    set_web_host: 0,
  }
  for (const [tool, highest] of Object.entries(REGISTRATION_BRACKETS)) {
    test(`the bracket of ${tool} follows the registration rules`, () =>
      assert.equal(SPECIFIED_TIERS[tool]?.max, highest))
  }

  const COUNTS: Record<string, number> = { 'no bracket': 39, '0 to 2': 3, '0 to 1': 16, '0 only': 1 }
  test('the table is complete: 55 tools and four for route tokens', () => {
    const names = Object.values(SPECIFIED_TIERS).map(({ max }) =>
      max === undefined ? 'no bracket' : max === 0 ? '0 only' : `0 to ${max}`,
    )
    assert.deepEqual(
      Object.fromEntries(Object.keys(COUNTS).map((name) => [name, names.filter((each) => each === name).length])),
      COUNTS,
    )
  })
})

suite('default rules', () => {
  test('the root has everything', () => assert.deepEqual(defaultRules(0), ['*']))

  test('an inner group has every tool that its bracket admits except list_routes', () => {
    const rules = defaultRules(1)
    assert.equal(rules.length, 55 - 2)
    for (const tool of [
      'add_route',
      'set_routes',
      'schedule_task',
      'send',
      'set_observe_window',
      'list_acl',
      'get_web_host',
    ]) {
      assert.ok(rules.includes(tool), tool)
    }
    for (const tool of ['list_routes', 'set_web_host']) assert.ok(!rules.includes(tool), tool)
  })

  test('a guest can send, read history, and manage its topics and pages', () => {
    assert.deepEqual(
      [...defaultRules(2)].sort(),
      [
        ...[
          'post',
          'reply',
          'send',
          'send_file',
          'send_voice',
          'delete',
          'dislike',
          'edit',
          'forward',
          'like',
          'quote',
        ],
        ...['repost', 'pin_message', 'unpin_message', 'unpin_all'],
        ...['fetch_history', 'get_thread', 'inspect_messages', 'find_messages', 'inspect_routing', 'inspect_session'],
        ...['inspect_tasks', 'inspect_identity', 'fork_topic', 'engage', 'disengage', 'get_work', 'set_work'],
        ...['refresh_groups', 'list_web_routes', 'set_web_route', 'del_web_route', 'log_external_cost'],
      ].sort(),
    )
  })

  test('a stranger can reply, send a file, like and edit', () =>
    assert.deepEqual(defaultRules(3).sort(), ['edit', 'like', 'reply', 'send_file']))

  for (const tier of [1, 2, 3] as const) {
    test(`no route-token tool is a default of tier ${tier}`, () => {
      for (const tool of ['issue_chat_link', 'issue_webhook', 'list_route_tokens', 'revoke_route_token']) {
        assert.ok(!defaultRules(tier).includes(tool))
        assert.deepEqual(SPECIFIED_TIERS[tool], {})
      }
    })

    test(`no default of tier ${tier} violates a bracket`, () => {
      for (const tool of defaultRules(tier)) assert.equal(bracketFault(tool, tier), undefined)
    })
  }
})
