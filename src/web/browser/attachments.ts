// The files of the message in the composer: chosen, photographed, pasted, dropped or recorded, each shown as a chip.
import { type AttachmentLimits, admitFiles, displayName, fileKind, roomForFile } from '../text/file-names.ts'
import { fileParts } from './files.ts'
import { iconNode } from './icons.ts'
import { element, iconButton } from './nodes.ts'
import { TEXTS, uiText } from './texts.ts'
import type { ChatView } from './view.ts'

interface AttachmentHandlers {
  onChange(): void
  /** Called with a sentence about files that are not added. */
  onProblem(problem: string): void
}

interface Chip {
  readonly file: File
  readonly node: HTMLElement
  readonly url: string
}

export class Attachments {
  readonly #view: ChatView
  readonly #limits: AttachmentLimits
  readonly #handlers: AttachmentHandlers
  readonly #list = element('ul', { class: 'chips', 'aria-label': uiText('filesOfMessage'), hidden: '' })
  readonly #status = element('span', { class: 'hidden', role: 'status' })
  readonly #buttons: HTMLButtonElement[] = []
  /** Of topics that are not shown. */
  readonly #others = new Map<string, readonly File[]>()
  #chips: Chip[] = []
  #topic = ''
  #isClosed = false

  constructor(view: ChatView, limits: AttachmentLimits, handlers: AttachmentHandlers) {
    this.#view = view
    this.#limits = limits
    this.#handlers = handlers
    view.box.prepend(this.#list, this.#status, ...this.#picker(uiText('addFiles'), 'clip', { multiple: '' }))
    if (matchMedia('(pointer: coarse)').matches) {
      const camera = { accept: 'image/*', capture: 'environment' }
      view.send.before(...this.#picker(uiText('takePhoto'), 'camera', camera))
    }
    this.#listenForPaste()
    this.#listenForDrop()
  }

  get files(): readonly File[] {
    return this.#chips.map(({ file }) => file)
  }

  /** Bytes that another file may have. */
  get room(): number {
    return roomForFile(this.files, this.#limits)
  }

  /** Shows the files of this topic. */
  show(topic: string): void {
    if (topic === this.#topic) return
    const files = this.take()
    if (files.length > 0) this.#others.set(this.#topic, files)
    this.#topic = topic
    this.#append(this.#others.get(topic) ?? [])
    this.#others.delete(topic)
  }

  /** Adds what the limits allow. */
  add(files: readonly File[], otherProblems: readonly string[] = []): void {
    if (this.#isClosed) return
    const { admitted, problems } = admitFiles(this.files, files, this.#limits, TEXTS)
    this.#append(admitted)
    if (admitted.length > 0) this.#announce()
    const all = [...otherProblems, ...problems]
    if (all.length > 0) this.#handlers.onProblem(all.join(' '))
  }

  /** Empties the composer, and returns its files. */
  take(): readonly File[] {
    const { files } = this
    for (const { url } of this.#chips) URL.revokeObjectURL(url)
    this.#chips = []
    this.#list.replaceChildren()
    this.#update()
    return files
  }

  /** Puts the files of a message that was not sent in front of what was added since. */
  restore(topic: string, files: readonly File[]): void {
    if (topic === this.#topic) this.#append([...files, ...this.take()])
    else this.#others.set(topic, [...files, ...(this.#others.get(topic) ?? [])])
  }

  /** The link accepts no more messages. */
  close(): void {
    this.#isClosed = true
    for (const button of this.#buttons) button.disabled = true
  }

  #picker(label: string, icon: 'clip' | 'camera', attributes: Readonly<Record<string, string>>): Node[] {
    const input = element('input', { type: 'file', hidden: '', ...attributes })
    const button = iconButton(label, iconNode(icon), `icon ${icon}`)
    this.#buttons.push(button)
    button.addEventListener('click', () => input.click())
    input.addEventListener('change', () => {
      this.add([...(input.files ?? [])])
      // The same file can be chosen again.
      input.value = ''
    })
    return [input, button]
  }

  #listenForPaste(): void {
    this.#view.input.addEventListener('paste', (event) => {
      const { files, types } = event.clipboardData ?? {}
      // Office programs add a picture of the text that was copied.
      if (!files?.length || (types?.includes('text/html') && types.includes('text/plain'))) return
      event.preventDefault()
      this.add([...files])
    })
  }

  #listenForDrop(): void {
    const { app, column, input } = this.#view
    const setOver = (isOver: boolean): void => void column.classList.toggle('dropping', isOver)
    const acceptFiles = (event: DragEvent): void => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      setOver(!this.#isClosed)
    }
    app.addEventListener('dragenter', acceptFiles)
    app.addEventListener('dragover', acceptFiles)
    app.addEventListener('dragleave', ({ relatedTarget }) => {
      if (!(relatedTarget instanceof Node && app.contains(relatedTarget))) setOver(false)
    })
    app.addEventListener('drop', (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      setOver(false)
      const items = [...event.dataTransfer.items].filter(({ kind }) => kind === 'file')
      const files = items.filter((item) => !item.webkitGetAsEntry()?.isDirectory)
      const added = files.map((item) => item.getAsFile()).filter((file) => file !== null)
      this.add(added, files.length < items.length ? [uiText('noFolders')] : [])
      input.focus()
    })
  }

  #append(files: readonly File[]): void {
    for (const file of files) {
      const chip = this.#createChip(file)
      this.#chips.push(chip)
      this.#list.append(chip.node)
    }
    this.#update()
  }

  #createChip(file: File): Chip {
    const kind = fileKind(file.type)
    const url = kind === 'other' ? '' : URL.createObjectURL(file)
    const node = element('li', { class: `chip ${kind}` })
    if (kind === 'audio')
      node.append(element('audio', { controls: '', src: url, 'aria-label': displayName(file.name, TEXTS) }))
    else if (kind === 'image') {
      const image = element('img', { alt: displayName(file.name, TEXTS), src: url })
      // The policy of a site may forbid it.
      image.addEventListener('error', () => {
        node.className = 'chip'
        image.replaceWith(...fileParts(file))
      })
      node.append(image)
    } else node.append(...fileParts(file))
    const remove = iconButton(
      uiText('removeFile', { name: displayName(file.name, TEXTS) }),
      iconNode('close'),
      'icon drop',
    )
    node.append(remove)
    const chip = { file, node, url }
    remove.addEventListener('click', () => this.#remove(chip))
    return chip
  }

  #remove(chip: Chip): void {
    const at = this.#chips.indexOf(chip)
    this.#chips.splice(at, 1)
    chip.node.remove()
    URL.revokeObjectURL(chip.url)
    this.#update()
    this.#announce()
    const next = this.#chips[Math.min(at, this.#chips.length - 1)]
    if (next) next.node.querySelector('button')?.focus()
    else this.#view.input.focus()
  }

  #update(): void {
    this.#list.hidden = this.#chips.length === 0
    this.#handlers.onChange()
  }

  #announce(): void {
    const names = this.files.map(({ name }) => displayName(name, TEXTS))
    this.#status.textContent = names.length === 0 ? uiText('noFiles') : uiText('filesAre', { names: names.join(', ') })
  }
}
