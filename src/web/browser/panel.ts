// Entry of `chat.js`: the chat in the panel of a widget. `embed.ts` loads it when the panel is opened for the first time.
import type { AgentProfile } from '../text/agent-profile.ts'
import type { AttachmentLimits } from '../text/file-names.ts'
import { ChatApp, type SiteMessage } from './chat.ts'

/** See `buildChatModule`. */
declare const STYLE: string

export interface PanelOptions {
  readonly base: string
  readonly agent: AgentProfile
  readonly limits: AttachmentLimits
  readonly root: ShadowRoot
  readonly panel: HTMLElement
  readonly close: HTMLElement
  readonly onUnread: () => void
  readonly onMessage: (message: SiteMessage) => void
}

export function openPanel({ base, agent, limits, root, panel, close, ...handlers }: PanelOptions): ChatApp {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(STYLE)
  root.adoptedStyleSheets.push(sheet)
  const chat = new ChatApp({
    base,
    agent,
    folder: '',
    credentials: 'omit',
    limits,
    ...handlers,
    scriptUrl: (name) => base + name,
  })
  chat.view.head.append(close)
  panel.replaceChildren(chat.view.app)
  chat.open()
  return chat
}
