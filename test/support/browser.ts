// A real browser: one Chromium per test file, with isolated visitors.
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { after, type TestContext } from 'node:test'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // A microphone that beeps, for pages that are allowed to use it.
  '--use-fake-device-for-media-stream',
]
/** A busy machine is slow, and a long timeout costs nothing. */
const PATIENCE_MS = 5 * 60_000

/** Debian's builds of the same engine. The first takes two thirds of the processor time, but cannot refuse a permission. */
const PROGRAMS = ['chromium-headless-shell', 'chromium'] as const
type Program = (typeof PROGRAMS)[number]

const browsers = new Map<Program, Promise<Browser>>()
// At module level: inside a test, it would close the browser at the end of the first test.
after(async () => {
  for (const browser of browsers.values()) await (await browser).close()
})

/** A visitor with separate cookies, storage and cache. */
export interface Visitor {
  readonly context: BrowserContext
  /** Opens another tab. Errors in it fail the test. */
  open(url: string): Promise<Page>
  /** The URLs of all requests so far. */
  readonly asked: readonly string[]
}

export async function visitor(
  t: TestContext,
  options: BrowserContextOptions = {},
  preferred: Program = 'chromium-headless-shell',
): Promise<Visitor> {
  const browser = browsers.get(preferred) ?? launch(preferred)
  browsers.set(preferred, browser)
  const context = await (await browser).newContext({ viewport: { width: 1100, height: 760 }, ...options })
  context.setDefaultTimeout(PATIENCE_MS)
  const [asked, faults]: [string[], string[]] = [[], []]
  context.on('request', (request) => asked.push(request.url()))
  context.on('weberror', (fault) => faults.push(String(fault.error())))
  t.after(async () => {
    await context.close()
    if (faults.length > 0) throw new Error(`a script failed in the browser: ${faults.join('; ')}`)
  })
  const open = async (url: string): Promise<Page> => {
    const page = await context.newPage()
    await page.goto(url, { waitUntil: 'domcontentloaded' })
    return page
  }
  return { context, open, asked }
}

/** Playwright creates and removes the directory of the profile. */
async function launch(preferred: Program): Promise<Browser> {
  // Loaded on demand: most tests of the dashboard open no browser.
  const { chromium } = await import('playwright-core')
  return chromium.launch({ executablePath: findBrowser(preferred) ?? '', args: FLAGS })
}

function findBrowser(preferred: Program): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter)
  return [preferred, ...PROGRAMS]
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((path) => existsSync(path))
}
