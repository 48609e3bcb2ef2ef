// Characters that nobody sees in a name, and that could make it look like another one. Also part of the page's script.

/**
 * Controls, separators of lines, fillers, and the marks that change the direction of a text. Joiners and variation selectors are
 * part of Persian, of Indic scripts and of emoji, and are hidden anywhere else.
 */
export const HIDDEN_CHARACTERS =
  /[\p{Cc}\p{Zl}\p{Zp}\u2800]|(?![\p{Join_C}\p{VS}])\p{DI}|(?<![^\0-\x7f])[\p{Join_C}\p{VS}]|\p{Join_C}(?![^\0-\x7f])/gu
