// The files of messages in the log. Nothing in them becomes markup: an image is an `img`, audio has the player of the browser,
// and everything else is a card to download.
import { describeFile, displayName, extensionLabel, fileKind, formatSize } from '../text/file-names.ts'
import { iconNode } from './icons.ts'
import { element } from './nodes.ts'
import { TEXTS, uiText } from './texts.ts'

export interface FrameFile {
  readonly id: string
  readonly name: string
  readonly type: string
  readonly size: number
  /** Of a voice message. */
  readonly transcript?: string
  /** The content, while this page is sending it. */
  readonly blob?: Blob
}

/** Where the files of a link are. */
export interface FileSource {
  /** The URL of a file, or undefined if a request for it needs headers, which elements do not send. */
  fileUrl(id: string): string | undefined
  loadFile(id: string, signal?: AbortSignal): Promise<Blob>
}

const NEW_TAB = { target: '_blank', rel: 'noreferrer noopener' }
/** Bytes of the files that a page keeps. */
const CACHE_MAX = 64 * 1024 ** 2
/** Browsers open six connections to a host: others are for messages and the stream. */
const LOADS_MAX = 3
/** The first retry of a file that was not loaded; each later one takes twice as long. */
const FILE_RETRY_MS = 5_000
/** A download has begun long before. */
const DOWNLOAD_MS = 60_000

/** The files that this page has sent or loaded last: browsers keep only those that elements load by URL. */
export class FileCache {
  readonly #source: FileSource
  /** The last used one is last. */
  readonly #blobs = new Map<string, Blob>()
  #loads = 0
  readonly #waiting: (() => void)[] = []

  constructor(source: FileSource) {
    this.#source = source
  }

  /** The URL of a file that this page does not have. */
  fileUrl(id: string): string | undefined {
    return this.#blobs.has(id) ? undefined : this.#source.fileUrl(id)
  }

  async load(id: string, signal?: AbortSignal): Promise<Blob> {
    const blob = this.#blobs.get(id) ?? (await this.#loadInTurn(id, signal))
    this.keep(id, blob)
    return blob
  }

  async #loadInTurn(id: string, signal?: AbortSignal): Promise<Blob> {
    if (this.#loads < LOADS_MAX) this.#loads++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await this.#source.loadFile(id, signal)
    } finally {
      // The next one takes its place.
      const next = this.#waiting.shift()
      if (next) next()
      else this.#loads--
    }
  }

  keep(id: string, blob: Blob): void {
    this.#blobs.delete(id)
    this.#blobs.set(id, blob)
    let bytes = [...this.#blobs.values()].reduce((sum, { size }) => sum + size, 0)
    for (const [oldest, { size }] of this.#blobs) {
      if (bytes <= CACHE_MAX) return
      this.#blobs.delete(oldest)
      bytes -= size
    }
  }
}

/** A file whose content has an object URL while its node is near the visible part of the log. */
interface NearFile {
  readonly file: FrameFile
  /** Called without a URL when the last one ends. */
  readonly show: (url?: string) => void
  /** Whether the URL is needed meanwhile. */
  readonly isInUse: () => boolean
  loading?: AbortController | undefined
  url?: string | undefined
  retryMs?: number
}

/** Shows files, until it is closed. */
export class FileNodes {
  readonly #cache: FileCache
  readonly #near = new Map<Element, NearFile>()
  readonly #observer: IntersectionObserver

  /** `root` is the element that scrolls. */
  constructor(cache: FileCache, root: Element) {
    this.#cache = cache
    const onChange = (entries: readonly IntersectionObserverEntry[]): void => {
      for (const { target, isIntersecting } of entries) {
        const near = this.#near.get(target)
        if (near && isIntersecting) void this.#load(near)
        else if (near && !near.isInUse()) this.#release(near)
        if (!target.isConnected) this.#near.delete(target)
      }
    }
    this.#observer = new IntersectionObserver(onChange, { root, rootMargin: '400px 0px' })
  }

  close(): void {
    this.#observer.disconnect()
    for (const near of this.#near.values()) this.#release(near)
    this.#near.clear()
  }

  /** The server has these files of a message now. */
  keep(sent: readonly FrameFile[], stored: readonly FrameFile[]): void {
    for (const [at, { id }] of stored.entries()) {
      const blob = sent[at]?.blob
      if (blob) this.#cache.keep(id, blob)
    }
  }

  nodes(files: readonly FrameFile[]): Node[] {
    if (files.length === 0) return []
    const images = files.filter(({ type }) => fileKind(type) === 'image')
    const node = element('div', { class: 'files' })
    if (images.length > 0) {
      const several = images.length > 1 ? ' several' : ''
      node.append(element('div', { class: `pictures${several}` }, ...images.map((file) => this.#picture(file))))
    }
    for (const file of files) {
      const kind = fileKind(file.type)
      if (kind === 'audio') node.append(this.#sound(file))
      else if (kind === 'other') node.append(this.#card(file))
    }
    return [node]
  }

  /** Its height does not depend on the image, so that loading does not move the reader. */
  #picture(file: FrameFile): Node {
    const name = displayName(file.name, TEXTS)
    const image = element('img', { alt: name, title: name, loading: 'lazy', decoding: 'async' })
    image.referrerPolicy = 'no-referrer'
    const link = element('a', { class: 'picture', ...NEW_TAB }, image)
    image.addEventListener('error', () => link.replaceChildren(element('span', { dir: 'auto' }, name)))
    this.#whenNear(link, file, (url) => {
      link.replaceChildren(image)
      if (url === undefined) {
        link.removeAttribute('href')
        image.removeAttribute('src')
      } else {
        link.href = url
        image.src = url
      }
    })
    return link
  }

  #sound(file: FrameFile): Node {
    const player = element('audio', { controls: '', preload: 'none', 'aria-label': displayName(file.name, TEXTS) })
    const caption = element('figcaption', { dir: 'auto' }, describeFile(file, TEXTS))
    const node = element('figure', { class: 'sound' }, player, caption)
    const isInUse = (): boolean => player.currentTime > 0
    const show = (url?: string): void =>
      url === undefined ? player.removeAttribute('src') : player.setAttribute('src', url)
    this.#whenNear(node, file, show, isInUse)
    if (file.transcript) {
      const said = element('p', { class: 'transcript', dir: 'auto' }, file.transcript)
      said.prepend(element('span', { class: 'hidden' }, uiText('transcript')))
      node.append(said)
    }
    return node
  }

  #card(file: FrameFile): Node {
    const parts = fileParts(file)
    // The visitor has a file that is still being sent.
    if (file.blob) return element('div', { class: 'file' }, ...parts)
    const label = uiText('download', { name: displayName(file.name, TEXTS), size: formatSize(file.size, TEXTS) })
    const url = this.#cache.fileUrl(file.id)
    if (url !== undefined) {
      const attributes = {
        class: 'file',
        href: url,
        download: displayName(file.name, TEXTS),
        'aria-label': label,
        ...NEW_TAB,
      }
      return element('a', attributes, ...parts, iconNode('download'))
    }
    const button = element('button', { type: 'button', class: 'file', 'aria-label': label }, ...parts)
    button.append(iconNode('download'))
    button.addEventListener('click', () => void this.#download(file, button))
    return button
  }

  async #download(file: FrameFile, button: HTMLButtonElement): Promise<void> {
    // A disabled button would lose the focus.
    if (button.ariaBusy === 'true') return
    button.ariaBusy = 'true'
    const note = button.querySelector('small')
    note?.replaceChildren(uiText('loading'))
    try {
      const url = objectUrl(await this.#cache.load(file.id), file)
      element('a', { href: url, download: displayName(file.name, TEXTS) }).click()
      setTimeout(() => URL.revokeObjectURL(url), DOWNLOAD_MS)
      note?.replaceChildren(formatSize(file.size, TEXTS))
    } catch {
      note?.replaceChildren(uiText('fileNotLoaded'))
    } finally {
      button.ariaBusy = null
    }
  }

  /** Calls `show` with the URL of the file, at once or whenever the node comes near. */
  #whenNear(node: Element, file: FrameFile, show: NearFile['show'], isInUse = (): boolean => false): void {
    const url = file.blob ? undefined : this.#cache.fileUrl(file.id)
    if (url !== undefined) {
      show(url)
      return
    }
    this.#near.set(node, { file, show, isInUse })
    this.#observer.observe(node)
  }

  async #load(near: NearFile): Promise<void> {
    if (near.loading) return
    const loading = new AbortController()
    near.loading = loading
    const { id, blob } = near.file
    try {
      const content = blob ?? (await this.#cache.load(id, loading.signal))
      if (loading.signal.aborted) return
      near.url = objectUrl(content, near.file)
      near.show(near.url)
    } catch {
      if (!loading.signal.aborted) this.#retryLater(near, loading)
    }
  }

  /** Shown like a file that is gone meanwhile. */
  #retryLater(near: NearFile, failed: AbortController): void {
    near.show('data:,')
    const waitMs = near.retryMs ?? FILE_RETRY_MS
    near.retryMs = waitMs * 2
    setTimeout(() => {
      if (near.loading !== failed) return
      near.loading = undefined
      void this.#load(near)
    }, waitMs)
  }

  #release(near: NearFile): void {
    if (!near.loading) return
    near.loading.abort()
    near.loading = undefined
    near.show()
    if (near.url !== undefined) URL.revokeObjectURL(near.url)
    near.url = undefined
  }
}

/** Never with a type that a browser would open as a page: the page of an object URL has the origin of this one. */
function objectUrl(blob: Blob, { type }: FrameFile): string {
  const isShown = fileKind(type) !== 'other'
  return URL.createObjectURL(new Blob([blob], { type: isShown ? type : 'application/octet-stream' }))
}

/** The icon, the name and the size. */
export function fileParts(file: Pick<FrameFile, 'name' | 'size'>): Node[] {
  const label = extensionLabel(file.name)
  const tile = element('span', { class: 'tile', 'aria-hidden': 'true' }, label || iconNode('file'))
  const name = displayName(file.name, TEXTS)
  const text = element('span', { class: 'file-text' }, element('b', { dir: 'auto', title: name }, name))
  text.append(element('small', { dir: 'ltr' }, formatSize(file.size, TEXTS)))
  return [tile, text]
}
