// The texts of this page or panel, in its language.
import type { ChatTexts, en } from '../texts/en.ts'
import { fill } from '../texts/language.ts'

/** See `wrapInFunction`. */
export declare const TEXTS: ChatTexts

/** The names of the places in a text. */
type Places<Text> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | Places<Rest> : never
type Values<Key extends keyof typeof en> = [Places<(typeof en)[Key]>] extends [never]
  ? []
  : [values: Readonly<Record<Places<(typeof en)[Key]>, string | number>>]

export function uiText<Key extends keyof typeof en>(key: Key, ...[values]: Values<Key>): string {
  return values ? fill(TEXTS[key], values) : TEXTS[key]
}

/** For times and numbers: the visitor's own region of the language. */
export function uiLocale(): string {
  const { language } = TEXTS
  return navigator.languages.find((tag) => `${tag}-`.startsWith(`${language}-`)) ?? language
}
