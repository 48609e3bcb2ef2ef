// Platforms put tokens into URLs, and errors quote those: no line of the log may contain a secret of the account.
import type { LogSink } from '../../lib/log/log-stream.ts'

/** Shorter ones would hide words. */
const SECRET_MIN = 6

export function hideSecrets(sink: Pick<LogSink, 'write'>, secrets: readonly string[]): Pick<LogSink, 'write'> {
  const hidden = secrets
    .filter(({ length }) => length >= SECRET_MIN)
    .flatMap((secret) => [JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
  return { write: (lines) => sink.write(hidden.reduce((text, each) => text.replaceAll(each, '[secret]'), lines)) }
}
