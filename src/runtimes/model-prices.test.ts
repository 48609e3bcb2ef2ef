import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { readSettings, sourceOf } from '../lib/settings.ts'
import {
  describePrice,
  findListedPrice,
  findPrice,
  readStatedPrice,
  spellings,
  writePrice,
  writeStatedPrice,
} from './model-prices.ts'
import { PRICES, PRICES_DATE } from './price-table.ts'
import { type ModelPrice, parseModelPrices, parsePrice, RUNTIME_SETTINGS } from './settings.ts'

const LOCAL = 'http://127.0.0.1:1/v1'
const PRICE: ModelPrice = { input: 100, cached: 10, output: 300 }

suite('the price of a model', () => {
  test('is found by its exact name, then without a date, a vendor, or both', () => {
    for (const [model, name] of [
      ['gpt-5', 'gpt-5'],
      ['gpt-5-2025-08-07', 'gpt-5'],
      ['openai/gpt-5', 'gpt-5'],
      ['openai/gpt-5-2025-08-07', 'gpt-5'],
      ['gpt-5-mini', 'gpt-5-mini'],
      ['claude-sonnet-4-5-20250929', 'claude-sonnet-4-5'],
      ['claude-sonnet-4-5@20250929', 'claude-sonnet-4-5'],
      ['models/gemini-2.5-flash', 'gemini-2.5-flash'],
      ['mistral-large-latest', 'mistral-large'],
      ['mistral-large-2411', 'mistral-large'],
      ['command-r-08-2024', 'command-r'],
      ['gpt-4-0613', 'gpt-4'],
      ['meta-llama/llama-4-scout-17b-16e-instruct', 'llama-4-scout-17b-16e-instruct'],
      // These versions have prices of their own.
      ['gpt-4o-2024-05-13', 'gpt-4o-2024-05-13'],
      ['mistral-large-2512', 'mistral-large-2512'],
    ] as const)
      assert.equal(findListedPrice(model, [])?.name, name, model)
    for (const model of ['gpt-55', 'my-gpt-5', 'gpt-5-turbo', 'constructor', '__proto__', '/', '', 'gpt-5/'])
      assert.equal(findListedPrice(model, []), undefined, model)
  })

  test('says what matched, and which table it is of', () => {
    assert.equal(
      describePrice(findPrice({ baseUrl: LOCAL, model: 'openai/gpt-5', overrides: [] })),
      `$1.25 input, $0.125 cached input and $10 output per million tokens (gpt-5 in the table of ${PRICES_DATE})`,
    )
    assert.match(PRICES_DATE, /^20\d\d-\d\d-\d\d$/)
  })

  test('of the operator precedes the table, and a stated one precedes both', () => {
    const overrides = [{ name: 'gpt-5', price: PRICE }]
    const found = findPrice({ baseUrl: LOCAL, model: 'gpt-5-2025-08-07', overrides })
    assert.deepEqual([found.kind, describePrice(found).includes('gpt-5 in MODEL_PRICES')], ['listed', true])
    const stated = { input: 1, cached: 1, output: 1 }
    const asked = { baseUrl: LOCAL, model: 'gpt-5', overrides, stated }
    assert.deepEqual(findPrice({ ...asked, statedFor: 'gpt-5' }), { kind: 'stated', price: stated })
    // Another model of the same endpoint has another price, unless the endpoint is free.
    assert.equal(findPrice({ ...asked, statedFor: 'small' }).kind, 'listed')
    assert.equal(findPrice({ ...asked, model: 'large', statedFor: 'small' }).kind, 'unknown')
    const free = { input: 0, cached: 0, output: 0 }
    assert.equal(findPrice({ ...asked, stated: free, statedFor: 'small' }).kind, 'stated')
  })

  test('is reported by OpenRouter, and by no host that only looks like it', () => {
    const at = (baseUrl: string) => findPrice({ baseUrl, model: 'x', overrides: [] }).kind
    assert.equal(at('https://openrouter.ai/api/v1'), 'reported')
    for (const url of ['https://openrouter.ai.example/v1', 'https://notopenrouter.ai/v1', 'nonsense'])
      assert.equal(at(url), 'unknown', url)
  })

  test('is not zero because it is missing', () => {
    assert.equal(readStatedPrice({}), undefined)
    assert.equal(readStatedPrice({ OPENAI_PRICE_INPUT: 100 }), undefined)
    assert.equal(readStatedPrice({ OPENAI_PRICE_OUTPUT: '100' }), undefined)
    assert.equal(readStatedPrice({ OPENAI_PRICE_INPUT: 'x', OPENAI_PRICE_OUTPUT: '1' }), undefined)
    assert.deepEqual(readStatedPrice({ OPENAI_PRICE_INPUT: '5', OPENAI_PRICE_OUTPUT: 7 }), {
      ...{ input: 5, cached: 5, output: 7 },
    })
  })
})

suite('typed prices', () => {
  const dollars = fc.integer({ min: 0, max: 999_999_999_999 }).map((millionths) => millionths / 1e6)

  test('are read as they are written', () => {
    fc.assert(
      fc.property(dollars, dollars, dollars, (input, cached, output) => {
        const typed = [input, cached, output].map((each) => each.toFixed(6)).join('/')
        const price = parsePrice(typed)
        assert.ok(price)
        assert.deepEqual(parsePrice(writePrice(price)), price)
        assert.deepEqual(readStatedPrice(writeStatedPrice(price)), price)
        assert.ok(Math.abs(price.input / 100 - input) < 1e-7)
      }),
    )
    assert.deepEqual(parsePrice(' $1.25 / $10 '), { input: 125, cached: 125, output: 1000 })
    assert.deepEqual(parsePrice('Free'), { input: 0, cached: 0, output: 0 })
  })

  test('of any other form are not read', () => {
    for (const text of ['', '1', '1/', '/1', '1/2/3/4', '-1/2', '1e3/2', '1,5/2', 'NaN/1', '1234567/1', '1.1234567/1'])
      assert.equal(parsePrice(text), undefined, text)
    fc.assert(
      fc.property(fc.string(), (text) => {
        const price = parsePrice(text)
        if (price) for (const each of Object.values(price)) assert.ok(Number.isFinite(each) && each >= 0)
        assert.ok(spellings(text).length <= 4)
      }),
    )
  })

  test('of MODEL_PRICES are a list of names; bad content is refused with a sentence', () => {
    assert.deepEqual(parseModelPrices(''), [])
    assert.deepEqual(parseModelPrices(' a/b:1=1/3 , c = free,'), [
      { name: 'a/b:1', price: { input: 100, cached: 100, output: 300 } },
      { name: 'c', price: { input: 0, cached: 0, output: 0 } },
    ])
    for (const text of ['a', '=1/2', 'a=', 'a=1', 'a=1/2,a=3/4', 'a=1/2 b=3/4'])
      assert.equal(parseModelPrices(text), undefined, text)
    assert.throws(
      () => readSettings(RUNTIME_SETTINGS, [sourceOf('.env', new Map([['MODEL_PRICES', 'a=cheap']]))]),
      /MODEL_PRICES in \.env must be a comma-separated list of models and their dollars per million tokens/,
    )
  })
})

test('the table has prices for every entry, and cached input never costs more than other input', () => {
  for (const [name, [input, cached, output]] of Object.entries(PRICES))
    assert.ok(input > 0 && cached > 0 && cached <= input && output > 0 && spellings(name)[0] === name, name)
})
