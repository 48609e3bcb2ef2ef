// Published pages of a folder in a real browser: they work, and they have no access to the origin of the links.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { layout } from '../../src/core/layout.ts'
import { visitor } from '../support/browser.ts'
import { testHost } from '../support/host.ts'
import { needs } from '../support/needs.ts'
import { serveHost } from '../support/served-host.ts'
import { tempDir } from '../support/temp.ts'

const FILES: Record<string, string> = {
  'index.html': `<!doctype html><link rel="stylesheet" href="a.css"><p id="p">text</p><img id="i" src="i.svg">
<script src="plain.js"></script><script type="module" src="module.mjs"></script><div id="out"></div>
<iframe id="f" src="/robots.txt"></iframe>`,
  'a.css': 'p { color: rgb(1, 2, 3) }',
  'i.svg': '<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"></svg>',
  'plain.js': 'window.plain = 1',
  'part.mjs': 'export const part = 2',
  'module.mjs': `import { part } from './part.mjs'
const attempt = (work) => { try { return String(work()) } catch (error) { return error.name } }
if (document.readyState !== 'complete') await new Promise((done) => addEventListener('load', done))
const found = {
  plain: window.plain,
  part,
  json: (await (await fetch('x.json')).json()).x,
  color: getComputedStyle(document.getElementById('p')).color,
  image: document.getElementById('i').naturalWidth,
  origin: self.origin,
  cookies: attempt(() => document.cookie),
  storage: attempt(() => localStorage.length),
  frame: attempt(() => document.getElementById('f').contentWindow.document.body.innerText),
}
document.getElementById('out').textContent = JSON.stringify(found)`,
  'x.json': '{"x": 3}',
}

test('a published page loads all its resources and runs in an opaque origin', needs('browser'), async (t) => {
  const at = await testHost(t)
  const places = layout(tempDir(t))
  const front = await serveHost(t, { on: { ...at, host: { ...at.host, layout: places } }, daemons: ['proxyd'] })
  await front.groups('main', 'team')
  for (const [name, text] of Object.entries(FILES)) {
    const path = join(places.webPub, 'team', name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  const page = await (await visitor(t)).open(`${front.url()}/pub/team/`)
  const out = page.locator('#out:not(:empty)')
  await out.waitFor({ state: 'attached' })
  assert.deepEqual(JSON.parse((await out.textContent()) ?? ''), {
    plain: 1,
    part: 2,
    json: 3,
    color: 'rgb(1, 2, 3)',
    image: 7,
    origin: 'null',
    cookies: 'SecurityError',
    storage: 'SecurityError',
    frame: 'SecurityError',
  })
})
