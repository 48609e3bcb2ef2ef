import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { compileSegments } from '../../lib/text/glob.ts'
import { admissionDay, chooseGate, gateAdmissions, takeAdmission } from './onboarding-gates.ts'

const gate = (spec: string, enabled = true) => ({ spec, daily_limit: 5, enabled })

suite('the gate of a folder', () => {
  const cases: [folder: string, specs: string[], chosen: string | undefined][] = [
    ['team/ada', ['**', 'team/**', 'team/*', 'team/ada'], 'team/ada'],
    ['team/ada', ['**', 'team/**', 'team/*'], 'team/*'],
    ['team/ada/x', ['**', 'team/**', 'team/*'], 'team/**'],
    ['other', ['**', 'team/**'], '**'],
    ['team/ada', ['team/a*', 'team/*'], 'team/a*'],
    ['team/ada', ['team/[ab]da', 'team/a??'], 'team/[ab]da'],
    ['team/ada', ['other/*', 'team'], undefined],
    ['team', ['team/**'], 'team/**'],
  ]
  for (const [folder, specs, chosen] of cases)
    test(`${folder} enters through ${chosen ?? 'none'} of ${specs.join(', ')}`, () => {
      assert.equal(
        chooseGate(
          specs.map((spec) => gate(spec)),
          folder,
        )?.spec,
        chosen,
      )
    })

  test('is never a disabled one', () => {
    assert.equal(chooseGate([gate('team/ada', false), gate('team/*')], 'team/ada')?.spec, 'team/*')
    assert.equal(chooseGate([gate('team/*', false)], 'team/ada'), undefined)
  })

  test('is the enabled match with the most literal characters, in any order of the rows', () => {
    const segment = fc.constantFrom('a', 'ab', 'b', '*', '**', 'a*', '?')
    const spec = fc.array(segment, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'))
    const folder = fc.array(fc.constantFrom('a', 'ab', 'b'), { minLength: 1, maxLength: 3 })
    const literals = (text: string): number => text.replace(/[*?]/g, '').length
    fc.assert(
      fc.property(fc.array(fc.tuple(spec, fc.boolean())), folder, ([...rows], parts) => {
        const [name, gates] = [parts.join('/'), rows.map(([text, enabled]) => gate(text, enabled))]
        const chosen = chooseGate(gates, name)
        const matching = gates.filter((each) => each.enabled && compileSegments(each.spec)?.(name))
        assert.equal(chosen === undefined, matching.length === 0)
        for (const other of matching) assert.ok(literals(chosen?.spec ?? '') >= literals(other.spec))
        assert.equal(chooseGate(gates.toReversed(), name)?.spec, chosen?.spec)
      }),
    )
  })
})

onEveryEngine('the count of a gate', (engine) => {
  test('admits exactly its limit per UTC day', async (t) => {
    const { host } = await testHost(t, engine)
    const take = (day: string, daily_limit = 5) =>
      host.engine.transaction((tx) => takeAdmission(tx, { spec: 'team/*', daily_limit }, day))
    const taken = await Promise.all(Array.from({ length: 50 }, () => take('2026-01-01')))
    assert.equal(taken.filter(Boolean).length, 5)
    assert.equal(await take('2026-01-02'), true)
    // A raised limit admits more on the same day, a lowered one none.
    assert.deepEqual(
      [await take('2026-01-01', 6), await take('2026-01-01', 6), await take('2026-01-01', 2)],
      [true, false, false],
    )
    const counts = await host.engine.read((tx) => gateAdmissions.list(tx))
    assert.deepEqual(
      counts.map(({ day, admitted }) => [day, admitted]),
      [
        ['2026-01-01', 6],
        ['2026-01-02', 1],
      ],
    )
  })

  test('changes its day at midnight UTC', () => {
    const midnight = Date.UTC(2026, 0, 2)
    assert.deepEqual([admissionDay(midnight - 1), admissionDay(midnight)], ['2026-01-01', '2026-01-02'])
  })
})
