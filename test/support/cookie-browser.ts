// A browser for tests: keeps cookies by host and path, follows redirects, and submits forms. The public address of an instance is
// mapped to the port where it really listens.
import assert from 'node:assert/strict'

interface StoredCookie {
  readonly name: string
  readonly value: string
  readonly path: string
}

export class CookieBrowser {
  readonly #addresses: ReadonlyMap<string, string>
  readonly #cookies = new Map<string, StoredCookie[]>()

  /** `addresses`: where each public origin really listens. */
  constructor(addresses: Readonly<Record<string, string>>) {
    this.#addresses = new Map(Object.entries(addresses))
  }

  /** One request, as a browser sends it after a click. */
  async fetch(url: string, init: RequestInit = {}): Promise<Response> {
    const { origin, pathname, search } = new URL(url)
    const cookies = this.cookieHeader(url)
    const headers = new Headers({
      Accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
      'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
      ...(cookies === '' ? {} : { Cookie: cookies }),
    })
    for (const [name, value] of new Headers(init.headers)) headers.set(name, value)
    const address = this.#addresses.get(origin) ?? origin
    const response = await fetch(`${address}${pathname}${search}`, { ...init, headers, redirect: 'manual' })
    for (const line of response.headers.getSetCookie()) this.#store(url, line)
    return response
  }

  async post(
    url: string,
    fields: Readonly<Record<string, string>>,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    const { origin } = new URL(url)
    return this.fetch(url, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { Origin: origin, ...headers },
    })
  }

  /** Follows redirects and submits the forms of other hosts, until a page or a redirect to a URL that `stop` accepts. */
  async walk(
    url: string,
    fields: Readonly<Record<string, string>> = {},
    stop: (url: string) => boolean = () => false,
  ): Promise<{ url: string; response: Response | undefined }> {
    let [at, form]: [string, Record<string, string> | undefined] = [url, undefined]
    for (let step = 0; step < 20; step++) {
      if (stop(at)) return { url: at, response: undefined }
      const response: Response = form ? await this.post(at, form) : await this.fetch(at)
      const location = response.headers.get('Location')
      form = undefined
      if (location !== null) {
        at = new URL(location, at).href
        continue
      }
      const text = await response.clone().text()
      const action = /<form[^>]* action="([^"]+)"/.exec(text)?.[1]
      if (action === undefined || this.#addresses.has(new URL(at).origin)) return { url: at, response }
      const hidden = [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)]
      form = { ...Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value])), ...fields }
      at = new URL(action, at).href
    }
    return assert.fail(`too many redirects, the last to ${at}`)
  }

  cookieHeader(url: string): string {
    const { hostname, pathname } = new URL(url)
    const cookies = this.#cookies.get(hostname) ?? []
    return cookies
      .filter(({ path }) => pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`))
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ')
  }

  setCookie(url: string, name: string, value: string, path = '/'): void {
    this.#store(url, `${name}=${value}; Path=${path}; Max-Age=60`)
  }

  #store(url: string, line: string): void {
    const { hostname, pathname } = new URL(url)
    const [pair = '', ...attributes] = line.split(';').map((part) => part.trim())
    const at = pair.indexOf('=')
    const [name, value] = [pair.slice(0, at), pair.slice(at + 1)]
    const attribute = (key: string): string | undefined =>
      attributes.find((text) => text.toLowerCase().startsWith(`${key}=`))?.slice(key.length + 1)
    const path = attribute('path') ?? (pathname.replace(/\/[^/]*$/, '') || '/')
    const [maxAge, expires] = [attribute('max-age'), attribute('expires')]
    const isOver = maxAge === '0' || (maxAge === undefined && expires !== undefined && Date.parse(expires) < Date.now())
    const others = (this.#cookies.get(hostname) ?? []).filter((cookie) => cookie.name !== name || cookie.path !== path)
    this.#cookies.set(hostname, isOver ? others : [...others, { name, value, path }])
  }
}
