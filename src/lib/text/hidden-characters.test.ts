import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { replaceHidden } from './hidden-characters.ts'

const [JOINER, NON_JOINER, SELECTOR] = ['\u200d', '\u200c', '\ufe0f']

suite('replaceHidden', () => {
  test('replaces each hidden character, and a row of joiners once', () => {
    const texts = [
      ['photo.png', 'photo.png'],
      ['a\u202eb\u200b\u0000c', 'a?b??c'],
      [`a${JOINER}${JOINER}b`, 'a?b'],
      [`${JOINER}é`, '?é'],
      [`é${JOINER}`, 'é?'],
      [`é${JOINER}a`, 'é?a'],
      [`é${JOINER}é`, `é${JOINER}é`],
      [`é${JOINER}\x7f`, 'é??'],
      [`é${JOINER}\u0080`, 'é??'],
      [`\x7e${JOINER}é`, '\x7e?é'],
      [`❤${SELECTOR}.png`, `❤${SELECTOR}.png`],
      [`❤${SELECTOR}${JOINER}${NON_JOINER}.png`, `❤${SELECTOR}?.png`],
      [`❤${JOINER}${SELECTOR}.png`, `❤${JOINER}${SELECTOR}.png`],
      [`می${NON_JOINER}خواهم`, `می${NON_JOINER}خواهم`],
    ] as const
    for (const [given, shown] of texts) assert.equal(replaceHidden(given, '?'), shown, JSON.stringify(given))
  })

  test('leaves no joiner beside ASCII or at an end, and every other character', () => {
    const unit = fc.constantFrom(JOINER, NON_JOINER, SELECTOR, 'a', '\x7e', 'é', 'م', '👩', '\u200b', '\u202e')
    fc.assert(
      fc.property(fc.array(unit, { maxLength: 20 }), (units) => {
        const shown = replaceHidden(units.join(''), '')
        assert.doesNotMatch(shown, /(?:^|[ -~])[\p{Join_C}\p{VS}]|\p{Join_C}(?:[ -~]|$)|\u200b|\u202e/u)
        const visible = units.filter((each) => /[\p{L}\p{S}~]/u.test(each)).join('')
        assert.equal(shown.replace(/[\p{Join_C}\p{VS}]/gu, ''), visible)
        assert.equal(replaceHidden(shown, ''), shown)
      }),
    )
  })

  for (const [name, unit] of [
    ['joiners', JOINER],
    ['selectors', SELECTOR],
    ['joiners and letters', `é${JOINER}`],
    ['joiners and ASCII', `a${JOINER}`],
  ] as const)
    test(`takes linear time for many ${name}`, () => {
      const factor = growth(
        2000,
        (size) => `é${unit.repeat(size)}é`,
        (text) => replaceHidden(text, ''),
      )
      assert.ok(factor < LINEAR, `${factor}`)
    })
})
