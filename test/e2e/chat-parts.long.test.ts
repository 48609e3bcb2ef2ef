// Modules of the chat page in a real browser, without a server.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { joinModules } from '../../src/web/chat/script.ts'
import { ENGLISH } from '../../src/web/texts/texts.ts'
import { visitor } from '../support/browser.ts'
import { needs } from '../support/needs.ts'
import { until } from '../support/until.ts'

const SITE = 'https://chat.test/'

/** An empty page over HTTPS, whose other files are `files`. */
async function openSite(t: TestContext, files: Readonly<Record<string, () => string | undefined>> = {}): Promise<Page> {
  const { context } = await visitor(t)
  const page = await context.newPage()
  await page.clock.install()
  await page.route(`${SITE}**`, (route) => {
    const name = route.request().url().slice(SITE.length)
    const body = name === '' ? '<!doctype html><title>A page</title><main></main>' : files[name]?.()
    if (body === undefined) return route.abort('connectionreset')
    const headers = { 'Access-Control-Allow-Origin': '*' }
    return route.fulfill({ body, headers, contentType: name === '' ? 'text/html' : 'text/javascript' })
  })
  await page.goto(SITE)
  return page
}

/** Evaluates the code after the modules. Functions and constants of the code are kept in `globalThis.kept`. */
const run = <T>(page: Page, modules: readonly string[], code: string): Promise<T> =>
  page.evaluate(
    `(async () => { 'use strict'; const TEXTS = ${JSON.stringify(ENGLISH)}; ${joinModules(modules)}\n${code} })()`,
  )

const NAMES = [
  ...['texts/language', 'text/wording', '../lib/text/hidden-characters', 'text/file-names', 'browser/texts'],
  ...['browser/nodes', 'browser/icons'],
]

suite('parts of the chat page', needs('browser'), () => {
  test('values stay in memory where the storage is full or forbidden', async (t) => {
    const page = await openSite(t)
    const read = `[readStored('localStorage', 'a'), readStored('sessionStorage', 'b')]`
    const found = await run(
      page,
      ['browser/stored'],
      `
      const found = []
      const write = (a, b) => {
        writeStored('localStorage', 'a', a)
        writeStored('sessionStorage', 'b', b)
        found.push(${read})
      }
      write('1', '1')
      const { setItem } = Storage.prototype
      Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }
      write('2', '2')
      write('3', undefined)
      Storage.prototype.setItem = setItem
      write('4', '4')
      found.push([localStorage.getItem('a'), sessionStorage.getItem('b')])
      for (const area of ['localStorage', 'sessionStorage'])
        Object.defineProperty(globalThis, area, { get() { throw new DOMException('forbidden', 'SecurityError') } })
      write('5', '5')
      write(undefined, '6')
      return found.map((pair) => pair.map((one) => one ?? null))`,
    )
    assert.deepEqual(found, [
      ['1', '1'],
      ['2', '2'],
      ['3', null],
      ['4', '4'],
      ['4', '4'],
      ['5', '5'],
      [null, '6'],
    ])
  })

  test('a highlighter that was not loaded is tried again, and one that fails leaves the code as it is', async (t) => {
    let loads = 0
    const script = `document.currentScript.tokenize = (code, language) => {
      if (language === 'go') throw new Error('a bug')
      return language === 'c' ? [['keyword', 'lost']] : [['keyword', code]]
    }`
    const page = await openSite(t, { 'highlight.js': () => (++loads > 2 ? script : undefined) })
    await run(
      page,
      [...NAMES, 'browser/highlight'],
      `
      const HIGHLIGHTER = ''
      const root = document.querySelector('main')
      new CodeHighlighter({ root, scriptUrl: (name) => ${JSON.stringify(SITE)} + name })
      for (const language of ['python', 'go', 'c', 'rust'])
        root.append(element('p', {}, element('code', { 'data-language': language }, 'if ' + language)))
      root.append(element('p', { class: 'draft' }, element('code', { 'data-language': 'sql' }, 'draft')))`,
    )
    const code = (): Promise<string[]> =>
      page.locator('code').evaluateAll((nodes) => nodes.map(({ innerHTML }) => String(innerHTML)))
    const plain = ['if python', 'if go', 'if c', 'if rust', 'draft']
    const colours = (): Promise<number> => page.locator('.token-keyword').count()
    await until(() => loads === 1)
    await page.clock.runFor(4_000)
    assert.deepEqual([loads, await code()], [1, plain])
    while (loads < 3) {
      const shown = await code()
      if (loads < 3) assert.deepEqual(shown, plain)
      await page.clock.runFor(1_000)
    }
    while ((await colours()) < 2) await page.clock.runFor(100)
    const coloured = (text: string): string => `<span class="token-keyword">${text}</span>`
    assert.deepEqual(await code(), [coloured('if python'), 'if go', 'if c', coloured('if rust'), 'draft'])
  })

  test('files are loaded three at a time and once, and kept up to 64 MiB, the last used ones', async (t) => {
    const page = await openSite(t)
    const found = await run(
      page,
      [...NAMES, 'browser/files'],
      `
      const open = []
      const asked = []
      let most = 0
      const loadFile = (id) => new Promise((resolve, reject) => {
        asked.push(id)
        open.push(() => id === 'broken' ? reject(new Error(id)) : resolve({ size: 20 * 1024 ** 2 }))
        most = Math.max(most, open.length)
      })
      const cache = new FileCache({ fileUrl: (id) => '/' + id, loadFile })
      const settle = async (...loads) => {
        for (let turns = 0; turns < 20; turns++, await null) open.shift()?.()
        return (await Promise.allSettled(loads)).map(({ status }) => status)
      }
      const first = ['a', 'b', 'broken', 'c'].map((id) => cache.load(id))
      await null
      const before = asked.length
      const states = await settle(...first)
      await settle(cache.load('a'), cache.load('b'))
      await settle(cache.load('d'))
      return { before, most, states, asked, urls: ['a', 'b', 'c', 'd'].map((id) => cache.fileUrl(id) ?? null) }`,
    )
    assert.deepEqual(found, {
      before: 3,
      most: 3,
      states: ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
      asked: ['a', 'b', 'broken', 'c', 'd'],
      urls: [null, null, '/c', null],
    })
  })

  test('an upload that fails after its last byte can be cancelled before the next attempt', async (t) => {
    const page = await openSite(t)
    const states = await run(
      page,
      [...NAMES, 'browser/upload'],
      `
      const upload = new EventTarget()
      class Broken extends EventTarget {
        upload = upload
        open() {}
        setRequestHeader() {}
        send() {
          upload.dispatchEvent(Object.assign(new Event('progress'), { loaded: 9, total: 9 }))
          states.push(progress.cancelButton.hidden)
          for (const type of ['error', 'loadend']) this.dispatchEvent(new Event(type))
        }
      }
      globalThis.XMLHttpRequest = Broken
      const states = []
      const progress = new UploadProgress()
      const request = { url: new URL(location.href), form: new FormData(), headers: new Headers(), credentials: 'same-origin' }
      const reason = await sendForm(request, progress).catch(({ message }) => message)
      return [...states, progress.cancelButton.hidden, reason]`,
    )
    assert.deepEqual(states, [true, false, 'the server was not reached'])
  })

  test('tool calls of a try that failed are not shown beside those of the next', async (t) => {
    const page = await openSite(t)
    const shown = await run(
      page,
      [...NAMES, 'browser/activity'],
      `
      const list = new ToolCallList()
      const call = (n, tool) => ({ n, tool, args: '', state: 'done', ms: undefined })
      list.add([call(1, 'a'), call(2, 'b')])
      list.add([call(1, 'a'), call(2, 'b'), call(3, 'c')])
      const before = [...list.node.querySelectorAll('li code')].map((node) => node.textContent)
      list.add([call(1, 'd')])
      return [before, [...list.node.querySelectorAll('li code')].map((node) => node.textContent), list.node.querySelector('summary').textContent]`,
    )
    assert.deepEqual(shown, [['a', 'b', 'c'], ['d'], 'Tool calls (1)'])
  })

  suite('the microphone', () => {
    /** A browser whose permission and recorder the test controls. */
    const record = (page: Page, room: number): Promise<void> =>
      run(
        page,
        [...NAMES, 'browser/recorder'],
        `
        const log = (globalThis.events = [])
        const track = { stop: () => log.push('microphone off') }
        Object.defineProperty(navigator, 'mediaDevices', { value: {
          getUserMedia: () => new Promise((resolve, reject) => {
            globalThis.allow = () => resolve({ getTracks: () => [track] })
            globalThis.refuse = (name) => reject(new DOMException('', name))
          }) } })
        globalThis.MediaRecorder = class extends EventTarget {
          static isTypeSupported() { return true }
          state = 'recording'
          mimeType = 'audio/webm;codecs=opus'
          constructor() { super(); globalThis.media = this; if (globalThis.isBroken) throw new DOMException('', 'NotSupportedError') }
          start() { log.push('recording') }
          stop() { this.state = 'inactive'; this.dispatchEvent(new Event('stop')) }
          hear(size) { this.dispatchEvent(Object.assign(new Event('dataavailable'), { data: new Blob([new Uint8Array(size)]) })) }
        }
        const [box, send] = [element('div'), element('button')]
        box.append(send)
        document.querySelector('main').append(box)
        globalThis.box = box
        globalThis.recorder = new VoiceRecorder({ box, send }, {
          onRecorded: (file) => log.push('file of ' + file.size),
          onProblem: (problem) => log.push(problem),
          onEnd: () => log.push('end'),
          room: () => ${room},
        })`,
      )
    const events = (page: Page): Promise<string[]> => page.evaluate('globalThis.events.splice(0)')
    const start = (page: Page): Promise<void> => page.getByRole('button', { name: 'Record a voice message' }).click()

    test('is off after each way to end a recording, and where none begins', async (t) => {
      const page = await openSite(t)
      await record(page, 1_000_000)
      await start(page)
      await page.evaluate(`allow()`)
      await page.getByText('0:00 / 4:10').waitFor()
      await page.evaluate('media.hear(500)')
      await page.getByRole('button', { name: 'Finish the recording' }).click()
      assert.deepEqual(await events(page), ['recording', 'microphone off', 'file of 500', 'end'])
      await start(page)
      await page.evaluate(`allow()`)
      await page.getByRole('button', { name: 'Discard the recording' }).click()
      assert.deepEqual(await events(page), ['recording', 'microphone off', 'end'])
      await start(page)
      await page.evaluate(`box.hidden = true; allow()`)
      assert.deepEqual(await events(page), ['microphone off'])
      await page.evaluate(`box.hidden = false; isBroken = true`)
      await start(page)
      await page.evaluate(`allow()`)
      assert.deepEqual(await events(page), ['microphone off', 'The microphone cannot be used now.'])
      await page.evaluate(`isBroken = false`)
      await start(page)
      await page.evaluate(`recorder.close(); allow()`)
      assert.deepEqual(await events(page), ['microphone off'])
    })

    test('is off at the limits of length and size, and a sentence says so', async (t) => {
      const page = await openSite(t)
      await record(page, 100_000)
      await start(page)
      await page.evaluate(`allow()`)
      await page.evaluate('media.hear(100_000); media.hear(1)')
      const limit = 'The recording has ended, because it cannot be longer.'
      assert.deepEqual(await events(page), ['recording', 'microphone off', 'file of 100000', 'end', limit])
      await start(page)
      await page.evaluate(`allow(); media.hear(5)`)
      await page.getByText('0:00 / 0:25').waitFor()
      await page.evaluate('media.hear(5)')
      await page.clock.runFor(26_000)
      assert.deepEqual(await events(page), ['recording', 'microphone off', 'file of 5', 'end', limit])
    })

    test('is not asked for when the message has no room, and a refusal gets a sentence', async (t) => {
      const page = await openSite(t)
      await record(page, 0)
      await start(page)
      assert.deepEqual(await events(page), [
        'Your message has no room for a voice message. Send it first, or remove a file.',
      ])
      const other = await openSite(t)
      await record(other, 1_000_000)
      for (const [name, sentence] of [
        ['NotAllowedError', 'Your browser does not allow this page to use the microphone. Allow it and try again.'],
        ['NotFoundError', 'No microphone was found.'],
        ['AbortError', 'The microphone cannot be used now.'],
      ] as const) {
        await start(other)
        await other.evaluate(`refuse('${name}')`)
        assert.deepEqual(await events(other), [sentence])
      }
    })
  })
})
