import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { initialsOf, partsOfColour, readableOn, tintOf } from './agent-profile.ts'

test('initials are the first letters of the first and the last word', () => {
  const all: Record<string, string> = {
    demo: 'D',
    'Support Desk': 'SD',
    'Ada of the Lake': 'AL',
    'sales-bot': 'SB',
    'team/ops': 'TO',
    ' Ada ': 'A',
    '東京 タワー': '東タ',
    '😀 x': '😀X',
    ß: 'SS',
    '': '?',
    '--': '?',
  }
  for (const [name, initials] of Object.entries(all)) assert.equal(initialsOf(name), initials, name)
})

test('a folder always has the same colour, on which white text is readable', () => {
  assert.equal(tintOf('main'), tintOf('main'))
  const tints = new Set(Array.from({ length: 200 }, (_, at) => tintOf(`team/${at}`)))
  assert.equal(tints.size, 8)
  for (const tint of tints) {
    const [red = 0, green = 0, blue = 0] = partsOfColour(tint).map((part) => (part / 255) ** 2.2)
    const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert.ok(1.05 / (luminance + 0.05) >= 4.5, tint)
    assert.equal(readableOn(partsOfColour(tint)), '#fff')
  }
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (folder) => /^#[0-9a-f]{6}$/.test(tintOf(folder))))
})

test('text on a colour is black or white, whichever is readable', () => {
  assert.deepEqual(partsOfColour('#01Fe80'), [1, 254, 128])
  for (const [colour, ink] of [
    ['#ffffff', '#000'],
    ['#000000', '#fff'],
    ['#ffee00', '#000'],
    ['#4f5bd5', '#fff'],
  ] as const)
    assert.equal(readableOn(partsOfColour(colour)), ink)
})
