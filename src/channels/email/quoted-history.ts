// What a person wrote in an answer, without the mail that they answered and without their signature. Answers between quoted lines
// keep the quotes.

const SIGNATURE_LINES = 30
/** Lines of an introduction such as "On Monday … wrote:". */
const INTRODUCTION_LINES = 3
const DIVIDER =
  /^[-_*]{2,20} ?(?:original message|original appointment|ursprüngliche nachricht|message d'origine|mensaje original|messaggio originale|oorspronkelijk bericht|ursprungligt meddelande|mensagem original|oryginalna wiadomość) ?[-_*]{2,20}$/i
const WROTE = /wrote|writes|schrieb|écrit|escribió|escreveu|scritto|skrev|schreef|napisał|kirjoitti|@|\d:\d\d/i
/** First lines of the copied headers of an older mail. */
const FROM = /^\*?(?:from|von|de|da|van|från|fra|od)\s?:\*?\s/i
const SENT =
  /^\*?(?:sent|date|gesendet|datum|envoyé|enviado|fecha|inviato|data|verzonden|skickat|sendt|wysłano)\s?:\*?\s/i

/** An empty result would hide that something was written: then it is the whole text. */
export function stripQuotedHistory(text: string): string {
  const lines = text.replaceAll('\r\n', '\n').split('\n')
  const divided = lines.slice(0, startOfCopy(lines))
  const kept = withoutSignature(withoutQuotes(divided))
  const shown = kept.join('\n').trim()
  return shown === '' ? lines.join('\n').trim() : shown
}

/** Where the older mail begins if it is copied without marks. */
function startOfCopy(lines: readonly string[]): number {
  const at = lines.findIndex((line, index) => {
    const shown = line.trim()
    if (DIVIDER.test(shown)) return true
    return FROM.test(shown) && lines.slice(index + 1, index + 4).some((next) => SENT.test(next.trim()))
  })
  if (at < 0) return lines.length
  // A line above it belongs to it.
  return /^_{5,80}$/.test(lines[at - 1]?.trim() ?? '') ? at - 1 : at
}

/** Without quotes at the end, and what introduces them. */
function withoutQuotes(lines: readonly string[]): readonly string[] {
  let end = lines.length
  while (end > 0 && isQuoteOrBlank(lines[end - 1])) end--
  const hasQuotes = lines.slice(end).some((line) => line.startsWith('>'))
  if (!hasQuotes) return lines.slice(0, end)
  return lines.slice(0, end - lengthOfIntroduction(lines.slice(Math.max(0, end - INTRODUCTION_LINES), end)))
}

/** Of the lines before a quote: it ends with a colon and names a time or an address. */
function lengthOfIntroduction(lines: readonly string[]): number {
  if (!lines.at(-1)?.trim().endsWith(':')) return 0
  const start = lines.findLastIndex((line) => line.trim() === '') + 1
  for (let from = lines.length - 1; from >= start; from--) {
    const shown = lines.slice(from).join(' ')
    if (WROTE.test(shown) && /\d|@/.test(shown)) return lines.length - from
  }
  return 0
}

function isQuoteOrBlank(line = ''): boolean {
  return line.startsWith('>') || line.trim() === ''
}

function withoutSignature(lines: readonly string[]): readonly string[] {
  const at = lines.findLastIndex((line) => line === '-- ' || line === '--' || line === '-- \r')
  return at > 0 && lines.length - at <= SIGNATURE_LINES ? lines.slice(0, at) : lines
}
