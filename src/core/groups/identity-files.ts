// What of an agent's identity is in the workspace of its folder: PERSONA.md and the picture.
import { readUpTo } from '../../lib/files/atomic-file.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { FileTypeDetector } from '../files/file-type.ts'
import type { Layout } from '../layout.ts'
import { type AgentGroup, type AgentIdentity, agentIdentity } from './agent-identity.ts'
import { PICTURE_BYTES_MAX } from './group-config.ts'
import { openWorkspaceFile } from './workspace-files.ts'
import { AGENT_HOME, openHome } from './workspace-home.ts'
import { readWorkspaceTexts } from './workspace-texts.ts'

const PERSONA_BYTES_MAX = 65_536

const PICTURE_RULE = `a picture must be a PNG, JPEG, GIF, WebP or AVIF image of at most ${PICTURE_BYTES_MAX / 1024} KiB`

export interface AgentPicture {
  readonly type: string
  readonly bytes: Uint8Array
}

/** Without a layout, only what the settings say. */
export function readIdentity(layout: Layout | undefined, group: AgentGroup, assistantName: string): AgentIdentity {
  const [persona] = layout ? readWorkspaceTexts(layout, group.folder, ['PERSONA.md'], PERSONA_BYTES_MAX) : []
  return agentIdentity(group, { persona, assistantName })
}

/** Undefined for anything but an image that browsers may show: agents can change the file. */
export async function readPicture(layout: Layout, folder: string, path: string): Promise<AgentPicture | undefined> {
  try {
    await using file = await openWorkspaceFile(layout, folder, `${AGENT_HOME}/${path}`, PICTURE_BYTES_MAX)
    // It may have grown since it was opened.
    const bytes = await readUpTo(file, PICTURE_BYTES_MAX + 1)
    if (bytes.byteLength > PICTURE_BYTES_MAX) return undefined
    const type = imageTypeOf(bytes)
    return type && { type: type.type, bytes }
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

export async function mustBePicture(layout: Layout, folder: string, path: string): Promise<void> {
  if (await readPicture(layout, folder, path)) return
  refuse('invalid', `${path} is not in the workspace of ${folder}, or no picture: ${PICTURE_RULE}`)
}

/** Writes the picture into the workspace. Returns its path there. */
export async function writePicture(layout: Layout, folder: string, bytes: Uint8Array): Promise<string> {
  const type = bytes.byteLength <= PICTURE_BYTES_MAX ? imageTypeOf(bytes) : undefined
  if (!type) return refuse('invalid', PICTURE_RULE)
  await using home = (await openHome(layout, folder)) ?? refuse('not_found', `${folder} has no workspace`)
  const path = `picture.${type.extension}`
  await home.replaceFile(path, bytes, 0o644)
  return path
}

function imageTypeOf(bytes: Uint8Array) {
  const detector = new FileTypeDetector()
  detector.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  const found = detector.endToShow()
  return found.type.startsWith('image/') ? found : undefined
}
