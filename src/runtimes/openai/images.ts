// Images of the messages that a turn answers, as models that can see get them. svc chooses them; the process in the cell reads
// them. See docs/runtimes.md.
import { readFile } from 'node:fs/promises'
import type { TurnMessage } from '../runtime.ts'
import type { ContentPart } from './completion.ts'
import type { TaskImage } from './task.ts'

const IMAGES_MAX = 10
const IMAGE_BYTES_MAX = 5 * 1024 * 1024
const ALL_BYTES_MAX = 20 * 1024 * 1024
const TYPES: ReadonlySet<string> = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])

/** What endpoints count for an image is of this order, and has nothing to do with its bytes. */
export const TOKENS_PER_IMAGE = 1500

/** The newest images within the limits, oldest first. The others stay paths in the prompt. */
export function chooseImages(messages: readonly TurnMessage[]): TaskImage[] {
  const chosen: TaskImage[] = []
  let bytes = 0
  for (const { path, type, size } of messages.flatMap(({ files = [] }) => files).toReversed()) {
    if (path === undefined || !TYPES.has(type) || size > IMAGE_BYTES_MAX) continue
    if (chosen.length === IMAGES_MAX || bytes + size > ALL_BYTES_MAX) break
    bytes += size
    chosen.push({ path, type })
  }
  return chosen.reverse()
}

/** Each image after its path, by which the prompt names it. One that was removed meanwhile is left out. */
export async function readImages(images: readonly TaskImage[]): Promise<ContentPart[]> {
  const parts: ContentPart[] = []
  for (const { path, type } of images) {
    const bytes = await readFile(path).catch(() => undefined)
    if (!bytes || bytes.length > IMAGE_BYTES_MAX) continue
    const url = `data:${type};base64,${bytes.toString('base64')}`
    parts.push({ type: 'text', text: path }, { type: 'image_url', image_url: { url } })
  }
  return parts
}

const REMEMBERED_MAX = 1000

/** Endpoints whose model cannot see, by folder: an agent could claim it, and then only its own folder is affected. */
export class BlindModels {
  readonly #keys = new Set<string>()

  has(...name: readonly string[]): boolean {
    return this.#keys.has(JSON.stringify(name))
  }

  add(...name: readonly string[]): void {
    if (this.#keys.size >= REMEMBERED_MAX) this.#keys.clear()
    this.#keys.add(JSON.stringify(name))
  }
}
