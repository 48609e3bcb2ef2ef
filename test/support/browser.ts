// A real browser for tests: one Chromium a file, and for each test visitors who know nothing of one another.
import { after, type TestContext } from 'node:test'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
/** A busy machine is slow, and nothing is lost by waiting. */
const PATIENCE_MS = 5 * 60_000

let browser: Promise<Browser> | undefined
// Here and not where it is launched: there it would end with the test that came first.
after(async () => (await browser)?.close())

/** Someone with a browser of their own: cookies, storage and cache are nobody else's. */
export interface Visitor {
  readonly context: BrowserContext
  /** Another tab. What goes wrong in it fails the test. */
  open(url: string): Promise<Page>
  /** The addresses of everything that was asked for so far. */
  readonly asked: readonly string[]
}

export async function visitor(t: TestContext, options: BrowserContextOptions = {}): Promise<Visitor> {
  browser ??= launch()
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

/** The profile is a folder that Playwright makes and removes. */
function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS })
}
