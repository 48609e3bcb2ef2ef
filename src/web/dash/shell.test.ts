import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { EMPTY_HTML, html } from '../html.ts'
import { renderLivePart, renderShell, type ShellContent, type ShellFrame } from './shell.ts'

const FRAME: ShellFrame = {
  title: '<Title>',
  instance: '<main>',
  person: 'github:"1',
  isOperator: false,
  navigation: [
    {
      label: 'Work',
      links: [
        { href: '/dash/turns', label: 'Turns', isCurrent: true },
        { href: '/dash/tasks', label: 'Tasks', isCurrent: false },
      ],
    },
  ],
  assets: { style: '/dash/assets/1/dash.css', script: '/dash/assets/2/dash.js' },
  isUnwrapped: false,
  nowMs: 1,
}
const CONTENT: ShellContent = {
  notices: EMPTY_HTML,
  top: EMPTY_HTML,
  live: { content: html`<p>live</p>`, version: '7', hash: 'abc' },
  bottom: EMPTY_HTML,
}
const shellOf = (options: Partial<ShellFrame & ShellContent> = {}): string =>
  renderShell({ ...FRAME, ...options }, { ...CONTENT, ...options }).body

suite('the frame of a page', () => {
  test('allows own scripts, styles, forms and requests only, in no frame, and is not stored', () => {
    const { status, headers } = renderShell(FRAME, CONTENT)
    assert.equal(status, 200)
    assert.deepEqual(headers, {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy':
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      'Cache-Control': 'no-store',
      'Referrer-Policy': 'same-origin',
      'X-Frame-Options': 'DENY',
      'X-Robots-Tag': 'noindex',
    })
  })

  test('names the page, the instance and the person, and marks the current page and operators', () => {
    const body = shellOf()
    assert.match(body, /<title>&lt;Title&gt; · &lt;main&gt;<\/title>/)
    assert.match(body, /<h1>&lt;Title&gt;<\/h1>/)
    assert.match(body, /href="\/dash\/me">github:&quot;1<\/a>/)
    assert.match(body, /<a href="\/dash\/turns" aria-current="page">Turns<\/a>/)
    assert.match(body, /<a href="\/dash\/tasks">Tasks<\/a>/)
    assert.match(shellOf({ isOperator: true }), /href="\/dash\/me">github:&quot;1 <span class="badge idle">operator</)
    assert.match(body, /<html lang="en" data-now="1">/)
    assert.match(shellOf({ theme: 'dark' }), /<html lang="en" data-now="1" data-theme="dark">/)
    assert.match(shellOf({ isUnwrapped: true }), /<html lang="en" data-now="1" data-wrap="off">/)
  })

  test('opens a stream only for a page that is live', () => {
    assert.doesNotMatch(shellOf(), /hx-sse|id="live" /)
    const live = { ...CONTENT.live, url: '/dash/turns?a=1&b=2' }
    assert.match(shellOf({ live }), /hx-sse:connect="\/dash\/live\?seen=7"/)
    assert.match(
      renderLivePart(live).toString(),
      /^<div id="live" hx-get="\/dash\/turns\?a=1&amp;b=2" [^>]*data-seen="abc"><p>live<\/p><\/div>$/,
    )
  })
})
