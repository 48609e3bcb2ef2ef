// Entry of the chat page.

import type { AgentProfile } from '../text/agent-profile.ts'
import { ChatApp } from './chat.ts'
import { applyColour } from './colour.ts'
import { iconNode } from './icons.ts'
import { element } from './nodes.ts'
import { uiText } from './texts.ts'
import { themeButton } from './theme.ts'

const container = document.getElementById('chat')
if (container) startPage(container)

function startPage(root: HTMLElement): void {
  const { folder = '', dashboard } = root.dataset
  const agent = readAgent(root.dataset)
  const { name } = agent
  applyColour(document.body, agent.colour)
  let unread = 0
  const setUnread = (count: number): void => {
    unread = count
    document.title = unread > 0 ? `(${unread}) ${name}` : name
  }
  const base = new URL('./', location.href).href
  const scriptUrl = openScripts(base)
  const chat = new ChatApp({
    base,
    agent,
    folder,
    credentials: 'same-origin',
    limits: {
      each: Number(root.dataset.attachmentMax),
      count: Number(root.dataset.attachmentsMax),
      total: Number(root.dataset.attachmentsTotal),
    },
    onUnread: () => setUnread(unread + 1),
    scriptUrl,
  })
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') setUnread(0)
  })
  if (dashboard) chat.view.head.append(dashboardLink(dashboard))
  chat.view.head.append(themeButton())
  root.replaceChildren(chat.view.app)
  chat.open()
  // On a phone the keyboard would cover the messages.
  if (matchMedia('(hover: hover)').matches) chat.focus()
  void keepOffline(base, scriptUrl)
}

/** See `chatPage`. */
function readAgent({ name = '', tint = '', picture, colour, greeting, starters }: DOMStringMap): AgentProfile {
  return { name, tint, picture, colour, greeting, starters: starters?.split('\n') }
}

function dashboardLink(href: string): HTMLElement {
  const label = uiText('dashboard')
  return element('a', { class: 'icon', href, 'aria-label': label, title: label }, iconNode('dashboard'))
}

interface ScriptPolicy {
  createScriptURL(url: string): unknown
}
declare const trustedTypes: { createPolicy(name: string, rules: ScriptPolicy): ScriptPolicy } | undefined

/** The content security policy allows this policy only, which knows the scripts of this link only. */
function openScripts(base: string): (name: string) => unknown {
  const urls = ['highlight.js', 'sw.js'].map((name) => base + name)
  const rules: ScriptPolicy = {
    createScriptURL: (url) => {
      if (urls.includes(url)) return url
      throw new TypeError('not a script of this page')
    },
  }
  const policy = typeof trustedTypes === 'undefined' ? rules : trustedTypes.createPolicy('svc-chat', rules)
  return (name) => policy.createScriptURL(base + name)
}

/** Keeps the page for times without network. A person's chat, whose token begins with "~", needs the session and is not kept. */
async function keepOffline(base: string, scriptUrl: (name: string) => unknown): Promise<void> {
  if (!('serviceWorker' in navigator) || /\/~[^/]*\/$/.test(base)) return
  try {
    // The type does not know trusted URLs.
    await navigator.serviceWorker.register(scriptUrl('sw.js') as string, { scope: base, updateViaCache: 'none' })
  } catch {
    // Browsers may forbid it, and the page works without it.
  }
}
