// Characters that are invisible in a name and could make it look like another one. Also part of the page's script, so without
// lookbehind, which older browsers do not know.

/** Controls, separators of lines, fillers, and the marks that change the direction of a text. */
const HIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\u2800]|(?![\p{Join_C}\p{VS}])\p{DI}/gu
/** They are part of Persian, of Indic scripts and of emoji, and hidden in ASCII and at the ends. */
const JOINERS = /(^|[\0-\x7f])[\p{Join_C}\p{VS}]+|\p{Join_C}+(?=[\0-\x7f]|$)/gu

export function replaceHidden(text: string, replacement: string): string {
  return text
    .replace(HIDDEN, replacement)
    .replace(JOINERS, (_, before: string | undefined) => `${before ?? ''}${replacement}`)
}
