import assert from 'node:assert/strict'
import { test } from 'node:test'
import { basePlatformOf, builtInChannelOf, defaultOutputStyle, hintFor, shortNameOf } from './platforms.ts'

test('an account belongs to the known platform before its first hyphen', () => {
  const bases: Record<string, string> = {
    'telegram-work': 'telegram',
    'slack-work-2': 'slack',
    'telegram--x': 'telegram',
    telegram: 'telegram',
    // Not accounts: unknown platforms, built-in ones, and a hyphen without a name.
    'matrix-work': 'matrix-work',
    'web-shop': 'web-shop',
    'hook-x': 'hook-x',
    'sandbox-x': 'sandbox-x',
    'constructor-x': 'constructor-x',
    'telegram-': 'telegram-',
    telegramwork: 'telegramwork',
    '-telegram': '-telegram',
    '': '',
  }
  for (const [platform, base] of Object.entries(bases)) assert.equal(basePlatformOf(platform), base, platform)
})

test('an account has the style, the hints and the short name of its platform, and no built-in channel', () => {
  assert.equal(shortNameOf('telegram-work'), 'tg')
  assert.equal(shortNameOf('mastodon-work'), 'ma')
  assert.equal(shortNameOf('matrix-work'), 'ma')
  for (const surface of ['telegram-work', 'telegram-work-pane', 'telegram-pane'])
    assert.equal(defaultOutputStyle(surface), defaultOutputStyle('telegram'), surface)
  assert.notEqual(defaultOutputStyle('telegram'), defaultOutputStyle('matrix-work'))
  assert.equal(hintFor('telegram-work', 'repost'), hintFor('telegram', 'repost'))
  assert.notEqual(hintFor('telegram-work', 'repost'), hintFor('matrix-work', 'repost'))
  assert.deepEqual(['web', 'web-shop', 'sandbox-x'].map(builtInChannelOf), ['web', undefined, undefined])
})
