// A web site on another origin, whose pages embed chats.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

interface OtherSite {
  /** Content of the head after the title. */
  readonly head: string
  readonly body?: string
  /** Attributes of the element `html`. */
  readonly attributes?: string
  /** Content-Security-Policy. */
  readonly policy?: string
}

/** Returns the URL of its only page. */
export async function serveSitePage(t: TestContext, options: OtherSite): Promise<string> {
  const { head, body = '<h1>A site</h1>', attributes = 'lang="en"', policy } = options
  const site = createServer((_, response) => {
    response.writeHead(200, {
      'Content-Type': 'text/html; charset=utf-8',
      ...(policy === undefined ? {} : { 'Content-Security-Policy': policy }),
    })
    response.end(
      `<!doctype html><html ${attributes}><head><title>A site</title><link rel="icon" href="data:,">${head}</head><body>${body}</body></html>`,
    )
  })
  site.listen(0, '127.0.0.1')
  await once(site, 'listening')
  t.after(() => {
    site.closeAllConnections()
    site.close()
  })
  return `http://localhost:${(site.address() as AddressInfo).port}/`
}
