import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { html } from '../html.ts'
import { messagePage, renderPage } from './page.ts'
import { ACCOUNT_STYLE } from './style.ts'

/** The colours of both themes by name. */
function themes(): Record<string, string>[] {
  const [light = '', dark = ''] = [...ACCOUNT_STYLE.matchAll(/:root \{([^}]*)\}/g)].map(([, text]) => text)
  const read = (text: string) =>
    Object.fromEntries([...text.matchAll(/--([\w-]+): (#\w+)/g)].map(([, name, value]) => [name, value]))
  return [read(light), { ...read(light), ...read(dark) }]
}

/** Relative luminance, as WCAG 2 defines it. */
function luminance(color: string): number {
  const digits = color.length === 4 ? [...color.slice(1)].map((digit) => digit + digit) : color.slice(1).match(/../g)
  const [r = 0, g = 0, b = 0] = (digits ?? []).map((pair) => {
    const part = Number.parseInt(pair, 16) / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(first: string, second: string): number {
  const [low = 0, high = 0] = [luminance(first), luminance(second)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

suite('the look of the pages', () => {
  test('has the contrast of WCAG AA in both themes', () => {
    const texts = [
      ...['text', 'muted', 'accent', 'fault'].flatMap((name) => [
        [name, 'back'],
        [name, 'raised'],
      ]),
      ...[
        ['text', 'code'],
        ['text', 'bubble'],
        ['on-accent', 'accent'],
        ['on-warn', 'warn'],
      ],
    ]
    for (const colors of themes()) {
      const ratio = ([ink = '', paper = '']: string[]) => contrast(colors[ink] ?? '', colors[paper] ?? '')
      for (const pair of texts) assert.ok(ratio(pair) >= 4.5, `${pair.join(' on ')}: ${ratio(pair)}`)
      // Borders of fields and buttons.
      assert.ok(ratio(['edge', 'back']) >= 3, `edge: ${ratio(['edge', 'back'])}`)
    }
  })
})

suite('a page', () => {
  test('allows its own style by hash and no script unless it names one', () => {
    const hash = createHash('sha256').update(ACCOUNT_STYLE).digest('base64')
    const plain = renderPage({ title: 'A', main: html`<p>x</p>` })
    const policy = plain.headers['Content-Security-Policy'] ?? ''
    assert.match(policy, /^default-src 'none'; /)
    assert.ok(policy.includes(`style-src 'sha256-${hash}'`))
    assert.doesNotMatch(policy, /script-src|connect-src/)
    const scripted = renderPage({ title: 'A', main: html`<p>x</p>`, scripts: ['/auth/passkey.js'] })
    assert.match(scripted.headers['Content-Security-Policy'] ?? '', /script-src 'self'; connect-src 'self'/)
    assert.match(scripted.body, /<script type="module" src="\/auth\/passkey.js"><\/script>/)
  })

  test('marks the current one of the pages of a person', () => {
    const { body } = renderPage({ title: 'A', person: 'local:<b>', tab: '/auth/devices', main: html`<p>x</p>` })
    assert.deepEqual(body.match(/<a [^>]*aria-current="page"[^>]*>/g), ['<a href="/auth/devices" aria-current="page">'])
    assert.match(body, /local:&lt;b&gt;/)
    assert.doesNotMatch(renderPage({ title: 'A', main: html`<p>x</p>` }).body, /class="tabs"/)
  })

  test('turns messages into sentences', () => {
    const { body, status } = messagePage({ title: 'T', text: 'no <b>', hint: 'Try again!', status: 404 })
    assert.equal(status, 404)
    assert.match(body, /<p>No &lt;b&gt;\.<\/p><p class="hint">Try again!<\/p>/)
  })
})

test('a form target adds no directive, pattern or keyword to the policy', () => {
  const policyOf = (...formTargets: string[]) =>
    renderPage({ title: 'x', main: html``, formTargets }).headers['Content-Security-Policy'] ?? ''
  const plain = ['https://app.example:8443', 'http://127.0.0.1:5', 'com.example.app+x:', 'https://[::1]']
  assert.match(
    policyOf(...plain),
    /form-action 'self' https:\/\/app\.example:8443 http:\/\/127\.0\.0\.1:5 com\.example\.app\+x: https:\/\/\[::1\];/,
  )
  const directives = policyOf().split(/[;,]/).length
  fc.assert(
    fc.property(fc.stringMatching(/^[ -~\t\r\n]*$/), (target) => {
      const policy = policyOf(`https://x${target}`)
      assert.equal(policy.split(/[;,]/).length, directives, policy)
      const sources = /form-action ([^;]*);/.exec(policy)?.[1]?.split(/\s+/) ?? []
      assert.deepEqual([sources.length, sources[0]], [2, "'self'"])
      assert.doesNotMatch(sources[1] ?? '', /[*'"]/)
    }),
  )
})
