import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { suite, test } from 'node:test'
import { Script } from 'node:vm'
import { brotliCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { de } from '../texts/de.ts'
import { ENGLISH } from '../texts/texts.ts'
import { highlighterScript } from './highlighter.ts'
import { buildChatModule, buildWidgetScript, chatPage, type HtmlPage, linkProblemPage, roundPage } from './page.ts'
import { proseHtml } from './prose.ts'

const HOSTILE = `"'><script>alert(1)</script><img src=x onerror=alert(1)>`
const LIMITS = { bytes: 25, count: 10, totalBytes: 100 }
const HOSTILE_AGENT = { name: HOSTILE, tint: '#4f5bd5', greeting: HOSTILE, starters: [HOSTILE], picture: './picture' }
const AGENT = { name: 'a', tint: '#4f5bd5' }
const turn = { turn_id: 'r1', status: 'success', frames: [{ kind: 'message', content: HOSTILE }] }
const pages: Record<string, HtmlPage> = {
  'the chat': chatPage({ texts: ENGLISH, agent: HOSTILE_AGENT, folder: HOSTILE, limits: LIMITS }),
  'a round': roundPage({ texts: ENGLISH, agent: HOSTILE_AGENT, question: HOSTILE, turn }),
  'a problem': linkProblemPage({
    texts: ENGLISH,
    status: 429,
    title: HOSTILE,
    detail: HOSTILE,
    hint: HOSTILE,
    retryAfter: 7,
  }),
}

const policyOf = ({ headers }: HtmlPage): Map<string, string[]> =>
  new Map(
    (headers['Content-Security-Policy'] ?? '').split('; ').map((rule) => {
      const [name = '', ...sources] = rule.split(' ')
      return [name, sources]
    }),
  )
const inside = (tag: string, body: string): string[] =>
  [...body.matchAll(new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`, 'g'))].map(([, text = '']) => text)
const sourceOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

for (const [name, page] of Object.entries(pages)) {
  suite(`the page of ${name}`, () => {
    test('forbids caching, referrers and indexing', () => {
      const { headers } = page
      assert.equal(headers['Content-Type'], 'text/html; charset=utf-8')
      assert.equal(headers['Cache-Control'], 'no-store')
      assert.equal(headers['Referrer-Policy'], 'no-referrer')
      assert.equal(headers['X-Content-Type-Options'], 'nosniff')
      assert.equal(headers['X-Robots-Tag'], 'noindex')
    })

    test('allows only its own style and script, by hash', () => {
      const policy = policyOf(page)
      assert.deepEqual(policy.get('default-src'), ["'none'"])
      assert.deepEqual(policy.get('base-uri'), ["'none'"])
      assert.deepEqual(policy.get('form-action'), ["'self'"])
      assert.deepEqual(policy.get('frame-ancestors'), ["'none'"])
      assert.deepEqual(policy.get('style-src'), inside('style', page.body).map(sourceOf))
      const scripts = inside('script', page.body)
      const isChat = name === 'the chat'
      assert.equal(scripts.length, isChat ? 2 : 0)
      const loaded = isChat ? [`'${highlighterScript().integrity}'`] : []
      assert.deepEqual(policy.get('script-src') ?? [], [...scripts.map(sourceOf), ...loaded])
    })

    test('escapes all values', () => {
      const picture = '<img src="./picture" alt="">'
      const markup = page.body.replace(/<(style|script)>[\s\S]*?<\/\1>/g, '').replace(picture, '')
      assert.equal(page.body.includes(picture), name !== 'a problem')
      assert.ok(!/<(script|img)/.test(markup))
      assert.ok(!/\son\w+=(?!alert)/.test(markup))
      assert.ok(markup.includes('&lt;script&gt;'))
    })

    test('contains only relative URLs', () => {
      const addresses = [...page.body.matchAll(/\b(?:href|src|action)="([^"]*)"/g)].map(([, address = '']) => address)
      assert.deepEqual(
        addresses.filter((address) => !/^(\.\/[\w.-]*$|data:)/.test(address)),
        [],
      )
    })
  })
}

test('lets the chat reach only its own server, and forbids turning text into markup', () => {
  const policy = policyOf(chatPage({ texts: ENGLISH, agent: AGENT, folder: 'b', limits: LIMITS }))
  assert.deepEqual(policy.get('connect-src'), ["'self'"])
  assert.deepEqual(policy.get('img-src'), ["'self'", 'blob:', 'data:'])
  assert.deepEqual(policy.get('media-src'), ["'self'", 'blob:'])
  assert.deepEqual(policy.get('require-trusted-types-for'), ["'script'"])
  assert.deepEqual(policy.get('trusted-types'), ['svc-chat'])
})

test('tells scripts the limits of files before an upload', () => {
  const { body } = chatPage({ texts: ENGLISH, agent: AGENT, folder: 'b', limits: LIMITS })
  assert.match(
    body,
    /<div id="chat"[^>]* data-attachment-max="25" data-attachments-max="10" data-attachments-total="100">/,
  )
  const widget = buildWidgetScript(AGENT, LIMITS)
  assert.match(widget, /^\(\(CONFIG, STYLE\) =>/)
  assert.ok(widget.includes('"limits":{"each":25,"count":10,"total":100}'))
})

test('links to the dashboard only if there is a path to it, and only on this server', () => {
  const bodyOf = (dashboard?: string): string =>
    chatPage({ texts: ENGLISH, agent: AGENT, folder: 'b', dashboard, limits: LIMITS }).body.replace(
      /<script>[\s\S]*?<\/script>/g,
      '',
    )
  assert.ok(!bodyOf().includes('ashboard'))
  assert.ok(bodyOf('/dash/folders/b').includes('data-dashboard="/dash/folders/b"'))
  assert.ok(bodyOf('/dash/folders/b').includes('<a href="/dash/folders/b">Dashboard</a>'))
  assert.ok(!bodyOf('//evil.example').includes('evil'))
})

test('builds scripts of valid JavaScript, the chat below 75 kB compressed and the button of the widget below 6 kB', () => {
  const page =
    inside('script', chatPage({ texts: ENGLISH, agent: AGENT, folder: 'b', limits: LIMITS }).body).at(-1) ?? ''
  const [chat, exported = ''] = buildChatModule(ENGLISH)
    .split(/^(?=export )/m)
    .toReversed()
  assert.equal(exported, '')
  assert.match(chat ?? '', /^export const \{ openPanel \} = \(\(/)
  const scripts = { page, chat: chat?.replace('export ', '') ?? '', widget: buildWidgetScript(HOSTILE_AGENT, LIMITS) }
  for (const [name, code] of Object.entries(scripts)) {
    assert.doesNotThrow(() => new Script(code), name)
    assert.ok(!/^\s*(import\s|export)\b/m.test(code), name)
    const { length } = brotliCompressSync(code)
    assert.ok(length < (name === 'widget' ? 6_000 : 75_000), `${name}: ${length}`)
  }
})

test('shows who the agent is: its picture above its initials, its greeting, and its icon', () => {
  const plain = chatPage({ texts: ENGLISH, agent: AGENT, folder: 'b', limits: LIMITS }).body
  assert.match(
    plain,
    /<rect width="34" height="34" fill="#4f5bd5"\/><text x="17" y="22.5" fill="#fff">A<\/text><\/svg><\/span>/,
  )
  assert.ok(!plain.includes('class="greeting"'))
  assert.match(plain, /<link rel="icon" href="data:image\/svg/)
  const agent = { name: 'Ada Bright', tint: '#ffee00', greeting: 'Hello\nyou', picture: './picture' }
  const { body } = chatPage({ texts: ENGLISH, agent, folder: 'b', limits: LIMITS })
  assert.match(body, /fill="#000">AB<\/text><\/svg><img src="\.\/picture" alt=""><\/span>/)
  assert.ok(body.includes('<p class="greeting" dir="auto">Hello\nyou</p>'))
  assert.ok(body.includes('<title>Ada Bright</title>') && body.includes('<link rel="icon" href="./picture">'))
})

suite('the page of a round without script', () => {
  const round = (status: string, frames: { kind: string; content: string }[], error?: string): string =>
    roundPage({
      texts: ENGLISH,
      agent: AGENT,
      question: 'Why?',
      turn: { turn_id: 'r1', status, frames, error },
    }).body
  const refresh = '<meta http-equiv="refresh" content="1">'

  test('offers to stop a round that is not over, and calls a stopped one no fault', () => {
    const stop = 'action="./r1/stop"'
    assert.ok(round('pending', []).includes(stop))
    for (const error of ['stopped', 'broken']) {
      const body = round('failed', [{ kind: 'message', content: 'half' }], error)
      assert.ok(!body.includes(stop))
      assert.deepEqual(
        [body.includes('>Stopped.<'), body.includes('class="fault"')],
        [error === 'stopped', error !== 'stopped'],
      )
    }
  })

  test('reloads until the round is over, and shows its frames', () => {
    const body = round('pending', [
      { kind: 'status', content: 'thinking' },
      { kind: 'message', content: '**half**' },
    ])
    assert.ok(body.includes(refresh) && body.includes('thinking') && body.includes('<strong>half</strong>'))
    assert.ok(body.includes('Why?'))
    // A reload would empty it.
    assert.ok(!body.includes('<textarea'))
  })

  test('shows its files with name and size, images and sounds in place, and takes more', () => {
    const file = (name: string, type: string, transcript?: string) => ({ id: 'f1', name, type, size: 1536, transcript })
    const files = [
      file('a.png', 'image/png'),
      file('b.svg', 'image/svg+xml'),
      file('c.webm', 'audio/webm', 'Hello <b>'),
      file('d\u202egpj.\u200bexe', 'application/octet-stream'),
    ]
    const page = roundPage({ texts: ENGLISH, agent: AGENT, question: '', files, turn, limits: LIMITS })
    const items = [...page.body.matchAll(/<li>(.*?)<\/li>/g)].map(([, item]) => item)
    const link = (name: string): string => `<a href="./files/f1" dir="auto">${name}</a> (1.5 KB)`
    assert.deepEqual(items, [
      `<a href="./files/f1"><img src="./files/f1" alt="a.png" loading="lazy"></a><br>${link('a.png')}`,
      link('b.svg'),
      `<audio controls preload="none" src="./files/f1" aria-label="c.webm"></audio><br>${link('c.webm')}<p class="transcript" dir="auto">Hello &lt;b&gt;</p>`,
      link('d\ufffdgpj.\ufffdexe'),
    ])
    assert.deepEqual(policyOf(page).get('media-src'), ["'self'"])
    assert.match(
      page.body,
      /<form [^>]*enctype="multipart\/form-data">[\s\S]*<input id="file" type="file" name="file" multiple/,
    )
    assert.ok(page.body.includes('At most 10 files of 25 bytes each, 100 bytes together'))
  })

  test('does not reload after the round, and has a form for the next message', () => {
    const body = round('success', [
      { kind: 'status', content: 'thinking' },
      { kind: 'message', content: 'Because.' },
    ])
    assert.ok(!body.includes(refresh) && !body.includes('thinking') && body.includes('Because.'))
    assert.match(body, /<form[^>]* method="post" action="\.\/"/)
  })

  test('shows a failure, or that there is no answer', () => {
    assert.ok(round('failed', [], 'the budget is spent').includes('There is no answer: the budget is spent'))
    assert.ok(round('success', []).includes('There is no answer to this.'))
  })
})

test('tells when to try again after a refusal', () => {
  const page = linkProblemPage({
    texts: ENGLISH,
    status: 429,
    title: 'Too many requests',
    detail: 'slow down',
    retryAfter: 7,
  })
  assert.equal(page.status, 429)
  assert.equal(page.headers['Retry-After'], '7')
  assert.ok(page.body.includes('Slow down.') && page.body.includes('Try again in 7 seconds.'))
})

test('renders any text as HTML of known elements, without handlers and unsafe URLs', () => {
  const pieces = fc.constantFrom(
    '<',
    '>',
    '"',
    "'",
    '&',
    '](',
    '[',
    ')',
    '*',
    '`',
    '\n',
    '> ',
    '- ',
    '|',
    '|-|',
    '|:-|',
    '- [x] ',
    '- [ ] ',
    '[^1]',
    '[^1]: ',
    'onclick="x"',
    '<script>',
    '<a href="javascript:x">',
    'https://x.y?"',
    'javascript:x',
  )
  const element =
    /<\/?(?:p|h[2-6]|pre|code|blockquote|ul|ol|li|div|table|thead|tbody|tr|th|td|hr|br|strong|em|s|sup|input)(?: (?:dir="(?:auto|ltr)"|start="\d+"|class="(?:wide|footnote|align-\w+)"|type="checkbox"|disabled|checked|aria-label="(?:D|Not d)one"))*>/g
  const link = /<a href="(?:https?:\/\/|mailto:)[^"<>]*" target="_blank" rel="noreferrer noopener nofollow">|<\/a>/gi
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string({ maxLength: 4 })), { maxLength: 40 }), (all) => {
      const rendered = proseHtml(all.join(''), ENGLISH).join('')
      assert.ok(!/[<>]/.test(rendered.replace(element, '').replace(link, '')), rendered)
    }),
  )
})

test('renders the alignment of cells, tasks and footnotes', () => {
  const text = '|a|b|\n|-:|-|\n|1|2|\n\n- [x] c\n- [ ] d[^1]\n\n[^1]: <e>'
  assert.equal(
    proseHtml(text, ENGLISH).join(''),
    '<div class="wide"><table><thead><tr><th dir="auto" class="align-right">a</th><th dir="auto">b</th></tr></thead>' +
      '<tbody><tr><td dir="auto" class="align-right">1</td><td dir="auto">2</td></tr></tbody></table></div>' +
      '<ul dir="auto"><li><p><input type="checkbox" disabled aria-label="Done" checked>c</p></li>' +
      '<li><p><input type="checkbox" disabled aria-label="Not done">d<sup>1</sup></p></li></ul>' +
      '<p dir="auto" class="footnote"><sup>1</sup> &lt;e&gt;</p>',
  )
})

test('renders 50,000 characters of all messages of a round as Markdown', () => {
  const frames = ['*a* '.repeat(10_000), '*b* '.repeat(10_000), '*c*'].map((content) => ({
    kind: 'message',
    content,
  }))
  const { body } = roundPage({ texts: ENGLISH, agent: AGENT, question: 'b', turn: { ...turn, frames } })
  const count = (text: string): number => body.split(text).length - 1
  assert.deepEqual([count('<em>a</em>'), count('<em>b</em>'), count('<em>c</em>')], [10_000, 2500, 0])
  assert.deepEqual([count('*b*'), count('*c*')], [7500, 1])
})

suite('the pages of a link in German', () => {
  const pages = {
    chat: chatPage({ texts: de, agent: AGENT, folder: 'b', dashboard: '/dash/', limits: LIMITS }),
    pending: roundPage({ texts: de, agent: AGENT, question: 'Q', turn: { ...turn, status: 'pending', frames: [] } }),
    failed: roundPage({
      ...{ texts: de, agent: AGENT, question: 'Q', limits: LIMITS },
      turn: { ...turn, frames: [], status: 'failed', error: 'the answer took too long' },
    }),
    problem: linkProblemPage({
      ...{ texts: de, status: 429, title: 'Too many requests', retryAfter: 1 },
      detail: 'there is no such link, or it was revoked',
      hint: 'a sentence of its own',
    }),
  }

  test('say so, to caches as well', () => {
    for (const { body, headers } of Object.values(pages)) {
      assert.ok(body.includes('<html lang="de">'))
      assert.equal(headers.Vary, 'Accept-Language')
    }
  })

  test('have no English text', () => {
    const scriptless = pages.chat.body.replace(/<(script|style)>[\s\S]*?<\/\1>/g, '')
    assert.ok(scriptless.includes('<label for="content">Nachricht</label>') && scriptless.includes('>Senden</button>'))
    assert.ok(scriptless.includes('Höchstens 10 Dateien mit je 25 Byte, zusammen 100 Byte'))
    assert.ok(
      pages.pending.body.includes('Antwort wird erwartet …') && pages.pending.body.includes('>Stoppen</button>'),
    )
    assert.ok(pages.failed.body.includes('Es gibt keine Antwort: die Antwort hat zu lange gedauert'))
    const { problem } = pages
    assert.ok(
      problem.body.includes('<title>Zu viele Anfragen</title>') && problem.body.includes('<h1>Zu viele Anfragen</h1>'),
    )
    assert.ok(problem.body.includes('<p dir="auto">Diesen Link gibt es nicht, oder er wurde widerrufen.</p>'))
    assert.ok(problem.body.includes('Neuer Versuch in 1 Sekunde möglich.'))
    assert.ok(problem.body.includes('<p dir="auto">A sentence of its own.</p>'))
    for (const { body } of Object.values(pages))
      assert.doesNotMatch(body.replace(/<(script|style)>[\s\S]*?<\/\1>/g, ''), />(Send|Stop|Files|Your [a-z ]+)</)
  })

  test('have a script of their own, which the policy allows', () => {
    const policy = policyOf(pages.chat).get('script-src') ?? []
    const scripts = inside('script', pages.chat.body)
    assert.deepEqual(policy.slice(0, 2), scripts.map(sourceOf))
    const english = chatPage({ texts: ENGLISH, agent: AGENT, folder: 'b', limits: LIMITS })
    assert.notEqual(scripts.at(-1), inside('script', english.body).at(-1))
    assert.ok(scripts.at(-1)?.includes('Nachricht …'))
    assert.doesNotThrow(() => new Script(scripts.at(-1) ?? ''))
  })
})
