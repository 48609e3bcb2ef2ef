// Whether a page of the dashboard is live: an old page that looks current is worse than an error. Updates wait while a person
// reads further down in a list, so that its rows do not move.

/** The server sends something at least every 15 s. */
const SILENCE_MAX_MS = 40_000
const SILENCE_CHECK_MS = 5000
const RETRY_MS = 2000

/** What htmx tells about a connection; only the parts that are used. */
interface StreamDetail {
  readonly connection?: { readonly attempt: number; readonly reader?: { cancel(): unknown } | null }
}

export function setUpLive(): void {
  const stream = document.querySelector('#stream')
  const state = document.querySelector<HTMLElement>('#connection')
  if (!state) return
  const hasEnded = { value: false }
  const show = (text: string, isLost: boolean): void => {
    if (hasEnded.value) return
    state.hidden = false
    state.textContent = text
    state.classList.toggle('lost', isLost)
  }
  document.addEventListener('svc:ended', () => {
    show('Signed out. ', true)
    if (!hasEnded.value) state.append(signInLink())
    hasEnded.value = true
  })
  if (!stream) return
  const reload = (): void => {
    if (!hasEnded.value) stream.dispatchEvent(new CustomEvent('svc:changed'))
  }
  watchStream(stream, show)
  watchReloads(show, reload)
  // As late as this: a request that waited for another one says what is shown after that.
  document.addEventListener('htmx:before:request', nameWhatIsShown)
  holdWhileReading(reload)
}

/** The server sends nothing if its content is the one that the page shows. */
function nameWhatIsShown(event: Event): void {
  if (!isOfPage(event)) return
  const { ctx } = (event as CustomEvent<{ ctx: { request: { headers: Record<string, string> } } }>).detail
  ctx.request.headers['X-Seen'] = document.querySelector<HTMLElement>('#live')?.dataset.seen ?? ''
}

function isOfPage({ target }: Event): boolean {
  return target instanceof Element && target.id === 'live'
}

function signInLink(): HTMLAnchorElement {
  const link = document.createElement('a')
  link.href = `/auth/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`
  link.textContent = 'Sign in'
  return link
}

type ShowState = (text: string, isLost: boolean) => void

function watchStream(stream: Element, show: ShowState): void {
  const isLost = { value: false }
  const latest: { connection: StreamDetail['connection']; heardAt: number } = { connection: undefined, heardAt: 0 }
  const hear = (event: Event): void => {
    latest.connection = (event as CustomEvent<StreamDetail>).detail.connection
    latest.heardAt = Date.now()
  }
  const lose = (text: string): void => {
    isLost.value = true
    show(text, true)
  }
  document.addEventListener('htmx:sse:before:connection', (event) => {
    const { connection } = (event as CustomEvent<StreamDetail>).detail
    if (connection && connection.attempt > 0) lose('Not live: connecting again')
  })
  document.addEventListener('htmx:sse:after:connection', (event) => {
    hear(event)
    isLost.value = false
    show('Live', false)
  })
  document.addEventListener('htmx:sse:before:message', hear)
  document.addEventListener('htmx:sse:error', () => lose('Not live: connecting again'))
  for (const name of ['htmx:response:error', 'htmx:error'])
    stream.addEventListener(name, () => lose('Not live: reload the page'))
  const connectAgain = (): void => {
    latest.heardAt = Date.now()
    latest.connection?.reader?.cancel()
  }
  window.addEventListener('offline', () => lose('Not live: no network'))
  window.addEventListener('online', connectAgain)
  setInterval(() => {
    if (document.hidden || isLost.value || latest.heardAt === 0 || Date.now() - latest.heardAt < SILENCE_MAX_MS) return
    lose('Not live: connecting again')
    connectAgain()
  }, SILENCE_CHECK_MS)
}

/** A reload that fails leaves the page as it is. */
function watchReloads(show: ShowState, reload: () => void): void {
  const failed = { value: false }
  const fail = (event: Event): void => {
    if (!isOfPage(event)) return
    failed.value = true
    show('Not live: the last update failed', true)
    setTimeout(reload, RETRY_MS)
  }
  for (const name of ['htmx:response:error', 'htmx:error']) document.addEventListener(name, fail)
  document.addEventListener('htmx:after:request', (event) => {
    const { ctx } = (event as CustomEvent<{ ctx: { response: { status: number } } }>).detail
    if (!failed.value || !isOfPage(event) || ctx.response.status >= 400) return
    failed.value = false
    show('Live', false)
  })
}

function holdWhileReading(reload: () => void): void {
  const button = document.querySelector<HTMLButtonElement>('#held-updates')
  if (!button) return
  const isReading = (): boolean => (document.querySelector('#live tbody tr')?.getBoundingClientRect().bottom ?? 0) < 0
  document.addEventListener('htmx:before:request', (event) => {
    if (!isOfPage(event) || !isReading()) return
    event.preventDefault()
    button.hidden = false
  })
  document.addEventListener(
    'scroll',
    () => {
      if (button.hidden || isReading()) return
      button.hidden = true
      reload()
    },
    { passive: true },
  )
  button.addEventListener('click', () => window.scrollTo({ top: 0 }))
}
