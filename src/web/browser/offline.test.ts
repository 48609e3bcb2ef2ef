import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { createContext, Script } from 'node:vm'
import { joinModules } from '../chat/script.ts'

const SCOPE = 'https://svc.test/chat/secret/'
type Answer = (request: unknown, init?: RequestInit) => Promise<Response>

/** Runs the service worker; `answer` is the network. */
function startWorker(answer: Answer) {
  const listeners = new Map<string, (event: object) => void>()
  const kept = new Map<string, Map<string, Response>>()
  const asked: [url: unknown, init: RequestInit | undefined][] = []
  let isRegistered = true
  const caches = {
    open: async (name: string) => {
      const cache = kept.get(name) ?? new Map<string, Response>()
      kept.set(name, cache)
      return {
        match: async (key: string) => cache.get(key)?.clone(),
        put: async (key: string, response: Response) => void cache.set(key, response),
      }
    },
    delete: async (name: string) => kept.delete(name),
  }
  const registration = {
    scope: SCOPE,
    unregister: async () => {
      isRegistered = false
    },
  }
  const fetch: Answer = (request, init) => {
    asked.push([request, init])
    return answer(request, init)
  }
  const addEventListener = (type: string, listener: (event: object) => void) => listeners.set(type, listener)
  const world = { registration, caches, fetch, addEventListener, skipWaiting: async () => {}, Promise }
  new Script(joinModules(['browser/stored', 'browser/offline'])).runInContext(createContext(world))
  const fire = async (type: string, event: object = {}): Promise<Response | undefined> => {
    const work: Promise<unknown>[] = []
    let response: Promise<Response> | undefined
    listeners.get(type)?.({
      ...event,
      waitUntil: (one: Promise<unknown>) => work.push(one),
      respondWith: (one: Promise<Response>) => {
        response = one
      },
    })
    const found = await response
    await Promise.all(work)
    return found
  }
  const open = (url = SCOPE, mode = 'navigate') => fire('fetch', { request: { method: 'GET', mode, url } })
  return { install: () => fire('install'), open, asked, kept, isRegistered: () => isRegistered }
}

const page = (text: string, status = 200, at = Date.now()): Response =>
  new Response(text, { status, headers: { Date: new Date(at).toUTCString() } })

suite('the service worker of a link', () => {
  test('shows the kept page while a proxy does not reach the server, and the answer of any other', async () => {
    let status = 200
    const worker = startWorker(async () => page(`answer ${status}`, status))
    await worker.install()
    for (status of [200, 404, 429, 500, 502, 503, 504]) {
      const shown = await worker.open()
      const expected = status > 500 ? 'answer 200' : `answer ${status}`
      assert.equal(await shown?.text(), expected)
    }
  })

  test('keeps the page alone, as a stranger gets it and from no other address', async () => {
    const worker = startWorker(async () => page('the page'))
    await worker.install()
    for (const url of [`${SCOPE}files/1`, `${SCOPE}events?topic=a`, 'https://svc.test/chat/other/'])
      assert.equal(await worker.open(url), undefined)
    assert.equal(await worker.open(`${SCOPE}`, 'cors'), undefined)
    const [[url, init] = []] = worker.asked
    assert.deepEqual([url, init?.credentials, init?.redirect, init?.cache], [SCOPE, 'omit', 'error', 'no-store'])
    assert.equal(worker.asked.length, 1)
    assert.equal(worker.kept.size, 1)
    assert.ok(![...worker.kept].some(([name, cache]) => `${name}${[...cache.keys()]}`.includes('secret')))
  })

  test('fetches the page again after an hour', async () => {
    let savedAt = Date.now() - 3_590_000
    const worker = startWorker(async () => page('', 200, savedAt))
    await worker.install()
    const fetches = async (): Promise<number> => {
      const before = worker.asked.length
      await worker.open()
      return worker.asked.length - before
    }
    assert.equal(await fetches(), 1)
    savedAt -= 20_000
    await worker.install()
    assert.equal(await fetches(), 2)
  })

  test('forgets the page and itself when the link is gone', async () => {
    let status = 200
    const worker = startWorker(async () => page('', status))
    await worker.install()
    status = 401
    assert.equal((await worker.open())?.status, 401)
    assert.deepEqual([worker.kept.size, worker.isRegistered()], [0, false])
  })

  test('fails like the browser without network and without a kept page', async () => {
    const worker = startWorker(async () => {
      throw new TypeError('no network')
    })
    await assert.rejects(worker.open(), /no network/)
  })
})
