// The texts of the chat in all languages. A further language is a file like `de.ts` and its place in `LANGUAGES`.
import { de } from './de.ts'
import { type ChatTexts, en, enPlain, enWidget, type Texts } from './en.ts'
import { chooseLanguage } from './language.ts'

export const ENGLISH: Texts = { ...en, widget: enWidget, plain: enPlain, phrases: {}, problems: {} }

export const LANGUAGES: readonly Texts[] = [ENGLISH, de]

/** For a person who prefers these languages, the most preferred one first. */
export function chooseTexts(preferred: readonly string[]): Texts {
  const tags = LANGUAGES.map(({ language }) => language)
  return LANGUAGES[tags.indexOf(chooseLanguage(preferred, tags))] ?? ENGLISH
}

/** Those that its script needs. */
export function chatTexts({ widget, plain, problems, ...texts }: Texts): ChatTexts {
  return texts
}

/** The texts of a widget before its chat is loaded. */
export type LoaderTexts = Texts['widget'] & Pick<Texts, 'loading' | 'tryAgain'>

/** By language. */
export function loaderTexts(): Readonly<Record<string, LoaderTexts>> {
  return Object.fromEntries(
    LANGUAGES.map(({ language, widget, loading, tryAgain }) => [language, { ...widget, loading, tryAgain }]),
  )
}
