// Chooses a language and fills in texts, on the server and in the browser.

/** For people who prefer none of the languages. */
const FALLBACK = 'en'

/** The first preferred language that is available, also for a region of it: `de` for `de-AT`. */
export function chooseLanguage(preferred: readonly string[], available: readonly string[]): string {
  for (const range of preferred) {
    const includes = (tag: string): boolean => `${range.trim().toLowerCase()}-`.startsWith(`${tag.toLowerCase()}-`)
    const [closest] = available.filter(includes).sort((a, b) => b.length - a.length)
    if (closest !== undefined) return closest
  }
  return FALLBACK
}

/** Puts values into their places in a text, such as `{name}`. */
export function fill(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (place, name: string) => String(Object.hasOwn(values, name) ? values[name] : place))
}

/** The file of the chat of a widget. */
export function chatFileOf(language: string): string {
  return language === FALLBACK ? 'chat.js' : `chat.${language}.js`
}
