// Service worker of the chat page of one link: keeps a copy of the page and shows it while the server cannot be reached. It keeps
// nothing else, and messages never pass through it.
import { hashLinkUrl } from './stored.ts'

interface WorkerEvent extends Event {
  waitUntil(work: Promise<unknown>): void
}
interface RequestEvent extends WorkerEvent {
  readonly request: Request
  respondWith(response: Promise<Response>): void
}

declare const registration: ServiceWorkerRegistration
declare function skipWaiting(): Promise<void>
declare function addEventListener(type: 'install', listener: (event: WorkerEvent) => void): void
declare function addEventListener(type: 'fetch', listener: (event: RequestEvent) => void): void

const { scope } = registration
// Other scripts of this origin could list the names, so they do not contain the token.
const CACHE = `svc-chat:${hashLinkUrl(scope)}`
const PAGE_KEY = 'https://page.invalid/'
const DOWN = [502, 503, 504]
const FRESH_MS = 3_600_000

addEventListener('install', (event) => event.waitUntil(Promise.all([skipWaiting(), savePage()])))
addEventListener('fetch', (event) => {
  const { method, mode, url } = event.request
  if (method === 'GET' && mode === 'navigate' && url.split(/[?#]/, 1)[0] === scope) event.respondWith(openPage(event))
})

async function openPage(event: RequestEvent): Promise<Response> {
  try {
    const response = await fetch(event.request)
    if (response.ok) event.waitUntil(refreshPage().catch(() => undefined))
    if (response.status === 401) event.waitUntil(removeAll())
    // A proxy that does not reach the server. The page says so, and goes on as soon as it is back.
    return (DOWN.includes(response.status) && (await findPage())) || response
  } catch (error) {
    const page = await findPage()
    if (page) return page
    throw error
  }
}

async function findPage(): Promise<Response | undefined> {
  return (await caches.open(CACHE)).match(PAGE_KEY)
}

/** Not at each page load: it is as large as the load itself. */
async function refreshPage(): Promise<void> {
  const savedAt = Date.parse((await findPage())?.headers.get('Date') ?? '')
  if (!(Date.now() - savedAt < FRESH_MS)) await savePage()
}

/** Fetched without the session: the kept page must not show what a signed-in person sees. */
async function savePage(): Promise<void> {
  const headers = { Accept: 'text/html' }
  // Never the page of a proxy that asks for a password.
  const response = await fetch(scope, { credentials: 'omit', headers, redirect: 'error', cache: 'no-store' })
  if (response.status === 401) await removeAll()
  else if (response.ok) await (await caches.open(CACHE)).put(PAGE_KEY, response)
}

/** The link was revoked. */
async function removeAll(): Promise<void> {
  await caches.delete(CACHE)
  await registration.unregister()
}
