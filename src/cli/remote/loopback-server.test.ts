import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuse } from '../../lib/refusal.ts'
import { openLoopbackServer } from './loopback-server.ts'

test('takes one response with its state and ignores all other requests', async () => {
  await using server = await openLoopbackServer('right')
  const received = server.receive(async (url) => url.search, new AbortController().signal)
  const base = server.redirectUri
  assert.match(base, /^http:\/\/127\.0\.0\.1:\d+\/callback$/)
  const strays: [string, RequestInit, number][] = [
    [`${base}?code=c&state=wrong`, {}, 400],
    [`${base}?code=c`, {}, 400],
    [`${base}/x?state=right`, {}, 404],
    [`${base}?state=right`, { method: 'POST' }, 404],
    [new URL('/favicon.ico', base).href, {}, 404],
  ]
  for (const [url, init, status] of strays) assert.equal((await fetch(url, init)).status, status, url)
  const page = await fetch(`${base}?code=c&state=right`)
  assert.deepEqual([page.status, await page.text()], [200, 'You are signed in. You can close this window.\n'])
  assert.equal(page.headers.get('content-type'), 'text/plain; charset=utf-8')
  assert.equal(await received, '?code=c&state=right')
  await assert.rejects(fetch(`${base}?code=c&state=right`))
})

test('shows the reason of a failure in the browser', async () => {
  await using server = await openLoopbackServer('s')
  const received = server.receive(() => refuse('forbidden', '<b>no</b>'), new AbortController().signal)
  const failed = assert.rejects(received, /no/)
  const page = await fetch(`${server.redirectUri}?state=s`)
  assert.deepEqual(
    [page.status, await page.text()],
    [400, 'Signing in failed: <b>no</b>. The terminal has the details.\n'],
  )
  await failed
})

test('stops waiting when it is aborted, before or during the wait', async () => {
  for (const isEarly of [true, false]) {
    await using server = await openLoopbackServer('s')
    const stop = new AbortController()
    if (isEarly) stop.abort()
    const received = server.receive(async () => 1, stop.signal)
    stop.abort()
    await assert.rejects(received, { name: 'AbortError' })
  }
})
