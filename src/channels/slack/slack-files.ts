// Files of Slack: those that people sent, and those that the agent sends.
import { openAsBlob } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { readAtMost } from '../process/file-downloads.ts'
import { type ConnectorContext, type OutgoingFilePart, PlatformError } from '../process/port.ts'
import { isRefusedAs, isSlackUrl, objectOf, objectsOf, type SlackCall, type SlackResult, textOf } from './slack-api.ts'
import { readFile, type SlackFile } from './slack-events.ts'

const UPLOAD_MS = 60_000
/** Slack puts a file into its chat a moment after it has confirmed it. */
const SHARE_PAUSES_MS = [0, 200, 400, 800, 1600]

/** Undefined if Slack does not give the file, or it is larger. */
export async function fetchSlackFile(
  context: Pick<ConnectorContext, 'secrets' | 'apiUrl' | 'log'>,
  call: SlackCall,
  file: SlackFile,
  max: number,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  const url = file.url ?? (await askForUrl(call, file.id))
  if (url === undefined) return undefined
  if (!isSlackUrl(url, context)) {
    context.log.warn({ file: file.id }, 'a file is not at Slack, and the token is not sent elsewhere')
    return undefined
  }
  const response = await fetch(url, {
    headers: { Authorization: `Bearer ${context.secrets.bot_token}` },
    // Slack redirects to a page for signing in if the scope is missing.
    redirect: 'manual',
    signal,
  })
  if (response.ok) return readAtMost(response, max)
  await response.body?.cancel()
  const isRefused = response.status < 500 && response.status !== 429
  throw new PlatformError(isRefused ? 'refused' : 'unavailable', `Slack answers with status ${response.status}`)
}

/** Files of shared channels come without their address. */
async function askForUrl(call: SlackCall, id: string): Promise<string | undefined> {
  const { file } = await call('files.info', { file: id })
  return readFile(id, objectOf(file)).url
}

/** No message shows the file yet, so every failure here means that nothing was sent. Returns its id. */
export async function uploadFile(
  context: Pick<ConnectorContext, 'signal'>,
  call: SlackCall,
  { path, filename }: OutgoingFilePart,
): Promise<string> {
  const blob = await openAsBlob(path)
  try {
    const { upload_url: url, file_id: id } = await call('files.getUploadURLExternal', { filename, length: blob.size })
    if (typeof url !== 'string' || typeof id !== 'string')
      throw new PlatformError('unavailable', 'Slack gives no address for the file')
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/octet-stream' },
      body: blob,
      redirect: 'error',
      signal: AbortSignal.any([context.signal, AbortSignal.timeout(UPLOAD_MS)]),
    })
    await response.body?.cancel()
    if (!response.ok) throw new PlatformError('unavailable', `Slack answers with status ${response.status} to a file`)
    return id
  } catch (error) {
    if (error instanceof PlatformError && error.kind !== 'unclear') throw error
    throw new PlatformError('unavailable', 'Slack did not take the file')
  }
}

/** The message that shows an uploaded file; undefined if there is none yet. */
export async function waitForShare(call: SlackCall, id: string, channel: string): Promise<string | undefined> {
  for (const ms of SHARE_PAUSES_MS) {
    await pause(ms)
    const ts = shareOf(await call('files.info', { file: id }), channel)
    if (ts !== undefined) return ts
  }
  return undefined
}

/** What became of an upload: the id of its message, or undefined if it was certainly not sent. */
export async function findShare(call: SlackCall, id: string, channel: string): Promise<string | undefined> {
  try {
    const ts = await waitForShare(call, id, channel)
    if (ts === undefined) throw new PlatformError('unclear', 'Slack has the file, but does not show it yet')
    return ts
  } catch (error) {
    // It was never completed.
    if (isRefusedAs(error, 'file_not_found', 'file_deleted')) return undefined
    throw error
  }
}

function shareOf({ file }: SlackResult, channel: string): string | undefined {
  const { public: open, private: closed } = objectOf(objectOf(file).shares)
  const [share] = [open, closed].flatMap((places) => objectsOf(objectOf(places)[channel]))
  return textOf(share?.ts)
}
