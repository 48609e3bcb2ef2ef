// What svc hands to the process of an adapter: one line of JSON on its standard input, whose end tells it to stop. Not in the
// environment, which other processes of the user can read.
import { createInterface } from 'node:readline'

/** For a process that only asks the platform who the account is. */
export interface CheckConfig extends Pick<AccountConfig, 'platform' | 'settings' | 'secrets' | 'apiUrl'> {
  readonly isCheck: true
}

export interface AccountConfig {
  /** Folder below src/channels. */
  readonly platform: string
  /** `<platform>` or `<platform>-<name>`. */
  readonly account: string
  /** Base URL of routd. */
  readonly hostUrl: string
  /** The channel secret of this account. */
  readonly secret: string
  /** Of this account alone. */
  readonly directory: string
  readonly settings: Readonly<Record<string, string>>
  readonly secrets: Readonly<Record<string, string>>
  readonly apiUrl?: string | undefined
  /** Host name or address under which the daemons reach it; 127.0.0.1 by default. */
  readonly host?: string | undefined
  /** Where the platform reaches the adapter through proxyd. */
  readonly webhookUrl?: string | undefined
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error' | undefined
}

/** The line is written by svc itself, so only its presence is checked. */
export async function readAccountConfig(
  input: NodeJS.ReadableStream,
  onEnd: () => void,
): Promise<AccountConfig | CheckConfig> {
  const lines = createInterface({ input })
  const first = Promise.withResolvers<string>()
  lines.once('line', first.resolve)
  lines.once('close', () => {
    first.reject(new Error('the configuration is missing on standard input'))
    onEnd()
  })
  return JSON.parse(await first.promise)
}
