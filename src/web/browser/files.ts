// The files of messages in the log. Nothing in them becomes markup: an image is an `img`, audio has the player of the browser,
// and everything else is a card to download.
import { describeFile, displayName, extensionLabel, fileKind, formatSize } from '../text/file-names.ts'
import { element, iconNode } from './nodes.ts'

export interface FrameFile {
  readonly id: string
  readonly name: string
  readonly type: string
  readonly size: number
  /** What is said in a voice message. */
  readonly transcript?: string
  /** The content, while this page is sending it. */
  readonly blob?: Blob
}

/** Where the files of a link are. */
export interface FileSource {
  /** The URL of a file, or undefined if a request for it needs headers, which elements do not send. */
  fileUrl(id: string): string | undefined
  loadFile(id: string): Promise<Blob>
}

const NEW_TAB = { target: '_blank', rel: 'noreferrer noopener' }

/** Shows files, and holds the object URLs of those that are in memory until it is closed. */
export class FileNodes {
  readonly #source: FileSource
  readonly #objectUrls: string[] = []

  constructor(source: FileSource) {
    this.#source = source
  }

  close(): void {
    for (const url of this.#objectUrls.splice(0)) URL.revokeObjectURL(url)
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
    const name = displayName(file.name)
    const image = element('img', { alt: name, title: name, loading: 'lazy', decoding: 'async' })
    image.referrerPolicy = 'no-referrer'
    const link = element('a', { class: 'picture', ...NEW_TAB }, image)
    image.addEventListener('error', () => link.replaceChildren(element('span', { dir: 'auto' }, name)))
    this.#whenNear(link, file, (url) => {
      link.href = url
      image.src = url
    })
    return link
  }

  #sound(file: FrameFile): Node {
    const player = element('audio', { controls: '', preload: 'none', 'aria-label': displayName(file.name) })
    const caption = element('figcaption', { dir: 'auto' }, describeFile(file))
    const node = element('figure', { class: 'sound' }, player, caption)
    this.#whenNear(node, file, (url) => {
      player.src = url
    })
    if (file.transcript) {
      const said = element('p', { class: 'transcript', dir: 'auto' }, file.transcript)
      said.prepend(element('span', { class: 'hidden' }, 'Transcript: '))
      node.append(said)
    }
    return node
  }

  #card(file: FrameFile): Node {
    const parts = fileParts(file)
    // The visitor has a file that is still being sent.
    if (file.blob) return element('div', { class: 'file' }, ...parts)
    const label = `Download ${displayName(file.name)}, ${formatSize(file.size)}`
    const url = this.#source.fileUrl(file.id)
    if (url !== undefined) {
      const attributes = { class: 'file', href: url, download: displayName(file.name), 'aria-label': label, ...NEW_TAB }
      return element('a', attributes, ...parts, iconNode('download'))
    }
    const button = element('button', { type: 'button', class: 'file', 'aria-label': label }, ...parts)
    button.append(iconNode('download'))
    button.addEventListener('click', () => void this.#download(file, button))
    return button
  }

  async #download(file: FrameFile, button: HTMLButtonElement): Promise<void> {
    button.disabled = true
    try {
      const link = element('a', {
        href: this.#objectUrl(await this.#source.loadFile(file.id), file),
        download: displayName(file.name),
      })
      link.click()
    } catch {
      button.querySelector('small')?.replaceChildren('This file could not be loaded.')
    } finally {
      button.disabled = false
    }
  }

  /** Calls `use` with the URL of a file, if it has to be loaded for that when the node comes near the visible part of the page. */
  #whenNear(node: Element, file: FrameFile, use: (url: string) => void): void {
    const url = file.blob ? this.#objectUrl(file.blob, file) : this.#source.fileUrl(file.id)
    if (url !== undefined) {
      use(url)
      return
    }
    const observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some(({ isIntersecting }) => isIntersecting)) return
        observer.disconnect()
        this.#source.loadFile(file.id).then(
          (blob) => use(this.#objectUrl(blob, file)),
          // Shown like a file that is gone.
          () => use('data:,'),
        )
      },
      { rootMargin: '400px' },
    )
    observer.observe(node)
  }

  /** Never with a type that a browser would open as a page: the page of an object URL has the origin of this one. */
  #objectUrl(blob: Blob, { type }: FrameFile): string {
    const isShown = fileKind(type) !== 'other'
    const url = URL.createObjectURL(new Blob([blob], { type: isShown ? type : 'application/octet-stream' }))
    this.#objectUrls.push(url)
    return url
  }
}

/** The icon, the name and the size. */
export function fileParts(file: Pick<FrameFile, 'name' | 'size'>): Node[] {
  const label = extensionLabel(file.name)
  const tile = element('span', { class: 'tile', 'aria-hidden': 'true' }, label || iconNode('file'))
  const name = displayName(file.name)
  const text = element('span', { class: 'file-text' }, element('b', { dir: 'auto', title: name }, name))
  text.append(element('small', { dir: 'ltr' }, formatSize(file.size)))
  return [tile, text]
}
