// What a model costs: as stated for its endpoint, as its provider reports, or as the table of well-known models says.
import { trimTrailing } from '../lib/text/trimming.ts'
import { PRICES, PRICES_DATE } from './price-table.ts'
import { CENTS_PATTERN, type ModelPrice, type PriceOverrides, toCents } from './settings.ts'

/** How the cost of a model's calls is known. */
export type PriceInForce =
  /** The provider or the program reports what a call costs. */
  | { readonly kind: 'reported'; readonly by: string }
  | { readonly kind: 'stated'; readonly price: ModelPrice }
  | { readonly kind: 'listed'; readonly price: ModelPrice; readonly name: string; readonly from: string }
  | { readonly kind: 'unknown' }

export interface PricedModel {
  readonly baseUrl: string
  readonly model: string
  /** Given with the endpoint, for the model `statedFor`. */
  readonly stated?: ModelPrice | undefined
  readonly statedFor?: string | undefined
  readonly overrides: PriceOverrides
}

/** A price is stated for one model, but an endpoint that is free is free for all. */
export function findPrice({ baseUrl, model, stated, statedFor, overrides }: PricedModel): PriceInForce {
  if (isOpenRouter(baseUrl)) return { kind: 'reported', by: 'OpenRouter' }
  if (stated && (isFree(stated) || model === statedFor)) return { kind: 'stated', price: stated }
  return findListedPrice(model, overrides) ?? { kind: 'unknown' }
}

export function isOpenRouter(baseUrl: string): boolean {
  return URL.canParse(baseUrl) && /^(.+\.)?openrouter\.ai$/.test(new URL(baseUrl).hostname)
}

export function isFree({ input, cached, output }: ModelPrice): boolean {
  return input === 0 && cached === 0 && output === 0
}

export function findListedPrice(
  model: string,
  overrides: PriceOverrides,
): Extract<PriceInForce, { kind: 'listed' }> | undefined {
  for (const name of spellings(model)) {
    const override = overrides.find((each) => each.name === name)
    if (override) return { kind: 'listed', ...override, from: 'MODEL_PRICES' }
    const row = Object.hasOwn(PRICES, name) ? PRICES[name] : undefined
    if (!row) continue
    const [input, cached, output] = row
    const price = { input: toCents(input), cached: toCents(cached), output: toCents(output) }
    return { kind: 'listed', price, name, from: `the table of ${PRICES_DATE}` }
  }
  return undefined
}

/** The name itself, then without the date of a version, without the name of a vendor, and without both. */
export function spellings(model: string): readonly string[] {
  const withoutVendor = model.slice(model.lastIndexOf('/') + 1)
  const names = [model, withoutDate(model), withoutVendor, withoutDate(withoutVendor)]
  return [...new Set(names)].filter((name) => name !== '')
}

/** `-2025-08-07`, `-20250929`, `@20250929`, `-08-2024`, `-2411` (year and month), `-0613` (month and day) and `-latest`. */
const DATE = /(?:[-@]20\d{6}|-20\d\d-\d\d-\d\d|-\d\d-20\d\d|-2\d(?:0[1-9]|1[0-2])|-(?:0[1-9]|1[0-2])[0-3]\d|-latest)$/

function withoutDate(model: string): string {
  return model.replace(DATE, '')
}

export function formatPrice(price: ModelPrice): string {
  if (isFree(price)) return 'free'
  const [input, cached, output] = [price.input, price.cached, price.output].map((cents) => formatDollars(cents))
  return `$${input} input, $${cached} cached input and $${output} output per million tokens`
}

/** As `parsePrice` reads it. */
export function writePrice(price: ModelPrice): string {
  return isFree(price) ? 'free' : [price.input, price.cached, price.output].map(formatDollars).join('/')
}

/** Cents have up to six digits after the point, so dollars have eight; `String` would write small ones as 1e-7. */
function formatDollars(cents: number): string {
  return trimZeros((cents / 100).toFixed(8))
}

function trimZeros(decimal: string): string {
  return trimTrailing(trimTrailing(decimal, '0'), '.')
}

export function describePrice(price: PriceInForce): string {
  switch (price.kind) {
    case 'reported':
      return `reported by ${price.by}`
    case 'stated':
      return isFree(price.price) ? 'free, as stated' : `${formatPrice(price.price)}, as stated`
    case 'listed':
      return `${formatPrice(price.price)} (${price.name} in ${price.from})`
    case 'unknown':
      return 'not known'
  }
}

interface StatedPrices {
  readonly OPENAI_PRICE_INPUT?: string | number | undefined
  readonly OPENAI_PRICE_CACHED?: string | number | undefined
  readonly OPENAI_PRICE_OUTPUT?: string | number | undefined
}

/** The price that settings or secrets state; a missing one is not zero, so there is none without the two that every model has. */
export function readStatedPrice(source: StatedPrices): ModelPrice | undefined {
  const [input, output] = [toAmount(source.OPENAI_PRICE_INPUT), toAmount(source.OPENAI_PRICE_OUTPUT)]
  if (input === undefined || output === undefined) return undefined
  return { input, cached: toAmount(source.OPENAI_PRICE_CACHED) ?? input, output }
}

function toAmount(value: string | number | undefined): number | undefined {
  if (typeof value !== 'string') return value
  return CENTS_PATTERN.test(value) ? Number(value) : undefined
}

/** The variables that state a price. */
export function writeStatedPrice({ input, cached, output }: ModelPrice): Required<Record<keyof StatedPrices, string>> {
  const write = (cents: number): string => trimZeros(cents.toFixed(6))
  return { OPENAI_PRICE_INPUT: write(input), OPENAI_PRICE_CACHED: write(cached), OPENAI_PRICE_OUTPUT: write(output) }
}
