// Characters that are invisible in a name and could make it look like another one. Also part of the page's script, so without
// lookbehind, which older browsers do not know.

/** Controls, separators of lines, fillers, and the marks that change the direction of a text. */
const HIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\u2800]|(?![\p{Join_C}\p{VS}])\p{DI}/gu
/** They are part of Persian, of Indic scripts and of emoji, and hidden in ASCII and at the ends. */
const JOINERS = /[\p{Join_C}\p{VS}]+/gu

export function replaceHidden(text: string, replacement: string): string {
  return text.replace(HIDDEN, replacement).replace(JOINERS, (run: string, at: number, whole: string) => {
    if (isAsciiOrEnd(whole, at - 1)) return replacement
    const shown = isAsciiOrEnd(whole, at + run.length) ? withoutJoinersAtEnd(run) : run
    return shown.length === run.length ? run : shown + replacement
  })
}

function isAsciiOrEnd(text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return Number.isNaN(code) || code < 0x80
}

function withoutJoinersAtEnd(run: string): string {
  let end = run.length
  while (run[end - 1] === '\u200c' || run[end - 1] === '\u200d') end--
  return run.slice(0, end)
}
