// `npm run screenshots`: writes the screenshots of docs/dashboard.md, with Debian's Chromium, from an instance with fixed data.
// `npm run screenshots -- <directory>`: writes every page in every look there, for a review of the looks.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { BrowserContextOptions, Page, PageScreenshotOptions } from 'playwright-core'
import { folderViews } from '../../src/daemons/dashd/folder/index.ts'
import { folderPath } from '../../src/daemons/dashd/page.ts'
import { pages } from '../../src/daemons/dashd/pages/index.ts'
import { type DemoInstance, openDemoBrowser, serveDemo } from './demo-instance.ts'

const DOCS = join(import.meta.dirname, '..', '..', 'docs')
const [WIDE, TALL, PHONE] = [
  { width: 1280, height: 860 },
  { width: 1280, height: 1240 },
  { width: 390, height: 844 },
]

interface Screenshot {
  readonly file: string
  readonly path: (demo: DemoInstance) => string
  readonly look: BrowserContextOptions
}

const IN_DOCS: readonly Screenshot[] = [
  { file: 'dashboard-home.png', path: () => '/dash/', look: { viewport: WIDE } },
  { file: 'dashboard-folder.png', path: () => folderPath('support'), look: { viewport: WIDE } },
  { file: 'dashboard-links.png', path: () => folderPath('support', 'links'), look: { viewport: WIDE } },
  { file: 'dashboard-message.png', path: ({ story }) => `/dash/messages/${story}`, look: { viewport: TALL } },
  { file: 'dashboard-costs.png', path: () => '/dash/costs?days=14', look: { viewport: WIDE } },
  { file: 'dashboard-phone.png', path: () => '/dash/', look: { viewport: PHONE, colorScheme: 'dark' } },
]

/** Every page, with the parameters of its details. */
function everyPath({ story, failed, running, task }: DemoInstance): string[] {
  return [
    ...pages.flatMap(({ path, nav }) => (nav === undefined ? [] : [path])),
    ...folderViews.map(({ name }) => folderPath('support', name)),
    ...[story, failed].map((id) => `/dash/messages/${id}`),
    ...[story, running].map((id) => `/dash/turns/${id}`),
    ...['/dash/messages?direction=all', '/dash/costs?by=day', '/dash/costs?by=model', '/dash/admissions?view=gates'],
    `/dash/tasks?task=${encodeURIComponent(task)}`,
    `${folderPath('support', 'links')}&jid=${encodeURIComponent('web:support/site')}`,
    `${folderPath('support', 'sessions')}&history=1`,
    `${folderPath('support', 'agent')}&kind=openai`,
    `${folderPath('support', 'agent')}&file=PERSONA.md`,
    ...['/dash/access?folder=support', '/dash/access?folder=support&principal=github:kim'],
    ...['/dash/person?sub=github:kim', '/dash/resources/groups', '/dash/search?q=su', '/dash/nothing'],
    folderPath('support/returns', 'grants'),
  ]
}

const LOOKS: Readonly<Record<string, BrowserContextOptions>> = {
  'wide-light': { viewport: WIDE, colorScheme: 'light' },
  'wide-dark': { viewport: WIDE, colorScheme: 'dark' },
  'phone-light': { viewport: PHONE, colorScheme: 'light' },
  'phone-dark': { viewport: PHONE, colorScheme: 'dark' },
}

/** When the page says that it is live. */
async function take(page: Page, url: string, options: PageScreenshotOptions): Promise<void> {
  await page.goto(url, { waitUntil: 'load' })
  if ((await page.locator('#stream').count()) > 0) await page.locator('#connection', { hasText: /^Live$/ }).waitFor()
  await page.screenshot({ animations: 'disabled', caret: 'hide', ...options })
}

async function takeForDocs(t: TestContext, demo: DemoInstance): Promise<void> {
  for (const { file, path, look } of IN_DOCS)
    await take(await openDemoBrowser(t, demo, look), demo.base + path(demo), { path: join(DOCS, file) })
}

async function takeEveryPage(t: TestContext, demo: DemoInstance, directory: string): Promise<void> {
  for (const [name, look] of Object.entries(LOOKS)) {
    const page = await openDemoBrowser(t, demo, look)
    for (const [at, path] of everyPath(demo).entries()) {
      const file = `${String(at).padStart(2, '0')}-${path.replace(/[^a-z0-9]+/gi, '-').slice(1, 60)}-${name}.png`
      await take(page, demo.base + path, { path: join(directory, file), fullPage: true })
    }
  }
}

test('screenshots of the dashboard', async (t) => {
  const [directory] = process.argv.slice(2)
  const demo = await serveDemo(t)
  if (directory === undefined) return takeForDocs(t, demo)
  mkdirSync(directory, { recursive: true })
  return takeEveryPage(t, demo, directory)
})
