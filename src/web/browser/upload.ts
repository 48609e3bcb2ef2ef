// The upload of the files of one message: a request with progress, and the bar that shows it.
import { element } from './nodes.ts'
import { uiText } from './texts.ts'

interface UploadRequest {
  readonly url: URL
  readonly form: FormData
  readonly headers: Headers
  readonly credentials: RequestCredentials
}

/** An upload without any progress for this long is tried again. */
const STALL_MS = 60_000

/** The state of an upload over all its attempts, with a button to cancel it. */
export class UploadProgress {
  /** For the line below the message. */
  readonly nodes: readonly Node[]
  readonly cancelButton = element('button', { type: 'button', class: 'quiet' }, uiText('cancel'))
  readonly #bar = element('progress', { max: '1', value: '0', 'aria-label': uiText('upload') })
  // Its changes are for eyes only: a screen reader would read each one.
  readonly #percent = element('span', { 'aria-hidden': 'true' })
  readonly #controller = new AbortController()

  constructor() {
    this.nodes = [element('span', {}, uiText('sending')), this.#bar, this.#percent, this.cancelButton]
    this.cancelButton.addEventListener('click', () => this.#controller.abort())
    this.show(0)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  show(fraction: number): void {
    this.#bar.value = fraction
    this.#percent.textContent = `${Math.floor(fraction * 100)} %`
    // The server may have all of it then.
    this.cancelButton.hidden = fraction === 1
  }
}

/** The first of these files whose content is gone, such as one that was deleted on the disk of the visitor. */
export async function findLostFile<F extends { readonly blob?: Blob }>(files: readonly F[]): Promise<F | undefined> {
  for (const file of files) {
    const isReadable = await file.blob
      ?.slice(0, 1)
      .arrayBuffer()
      .then(Boolean, () => false)
    if (isReadable === false) return file
  }
  return undefined
}

/** Posts the form. Rejects when the server was not reached or the upload was cancelled. */
export function sendForm(request: UploadRequest, progress: UploadProgress): Promise<Response> {
  const { url, credentials } = request
  // Only XMLHttpRequest shows progress, but it sends cookies to its own origin always.
  if (credentials === 'omit' && url.origin === location.origin) return fetchForm(request, progress)
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest()
    xhr.open('POST', url)
    for (const [name, value] of request.headers) xhr.setRequestHeader(name, value)
    let stallTimer: ReturnType<typeof setTimeout> | undefined
    const startStallTimer = (): void => {
      clearTimeout(stallTimer)
      stallTimer = setTimeout(() => xhr.abort(), STALL_MS)
    }
    const cancel = (): void => xhr.abort()
    progress.signal.addEventListener('abort', cancel)
    xhr.upload.addEventListener('progress', ({ loaded, total }) => {
      startStallTimer()
      progress.show(total > 0 ? loaded / total : 0)
    })
    xhr.addEventListener('load', () => resolve(responseOf(xhr)))
    const fail = (reason: string) => (): void => {
      // Until the next attempt it can be cancelled.
      progress.show(0)
      reject(new Error(reason))
    }
    xhr.addEventListener('error', fail('the server was not reached'))
    xhr.addEventListener('abort', fail('the upload was aborted'))
    xhr.addEventListener('loadend', () => {
      clearTimeout(stallTimer)
      progress.signal.removeEventListener('abort', cancel)
    })
    progress.show(0)
    startStallTimer()
    xhr.send(request.form)
  })
}

function fetchForm({ url, form, headers, credentials }: UploadRequest, { signal }: UploadProgress): Promise<Response> {
  return fetch(url, { method: 'POST', body: form, headers, credentials, signal, cache: 'no-store', redirect: 'error' })
}

function responseOf(xhr: XMLHttpRequest): Response {
  const retryAfter = xhr.getResponseHeader('Retry-After')
  return new Response(xhr.status === 204 ? null : xhr.responseText, {
    status: xhr.status,
    headers: retryAfter === null ? {} : { 'Retry-After': retryAfter },
  })
}
