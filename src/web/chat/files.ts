// The files of a link besides its pages: scripts, and what a browser needs to install the page as an app.
import type { AgentProfile } from '../text/agent-profile.ts'
import { chatFileOf } from '../texts/language.ts'
import { LANGUAGES } from '../texts/texts.ts'
import { highlighterScript } from './highlighter.ts'
import { BUBBLE_COLOR, BUBBLE_PATH, drawIcon } from './icon.ts'
import { buildChatModule, buildWidgetScript, type FileLimits, PRIVACY_HEADERS } from './page.ts'
import { buildScript, wrapInFunction } from './script.ts'
import { createScriptHandler, type ScriptHandler, type StaticFile } from './script-response.ts'

/** Of the service worker. A person's chat has none: it must not open without the session. */
export const OFFLINE_SCRIPT = 'sw.js'

const SCRIPT_TYPE = 'text/javascript; charset=utf-8'

/** Those that are the same at every link, by their path below it. */
export function commonLinkFiles(): ReadonlyMap<string, ScriptHandler> {
  const files: Readonly<Record<string, () => StaticFile>> = {
    ...Object.fromEntries(
      LANGUAGES.map((texts) => [chatFileOf(texts.language), () => file(SCRIPT_TYPE, buildChatModule(texts))]),
    ),
    'highlight.js': () => file(SCRIPT_TYPE, highlighterScript().code),
    [OFFLINE_SCRIPT]: () => file(SCRIPT_TYPE, wrapInFunction(buildScript('offline'), {}), OWN_ORIGIN),
    'icon.svg': () => file('image/svg+xml', BUBBLE_SVG),
    'icon-192.png': () => file('image/png', drawIcon({ size: 192, isMaskable: false })),
    'icon-512.png': () => file('image/png', drawIcon({ size: 512, isMaskable: false })),
    'icon-maskable.png': () => file('image/png', drawIcon({ size: 512, isMaskable: true })),
  }
  return new Map(Object.entries(files).map(([path, build]) => [path, createScriptHandler(build)]))
}

const AGENT_FILES: Readonly<Record<string, (agent: AgentProfile, limits: FileLimits) => StaticFile>> = {
  'widget.js': (agent, limits) => file(SCRIPT_TYPE, buildWidgetScript(agent, limits)),
  'manifest.webmanifest': ({ name }) => file('application/manifest+json', JSON.stringify(manifest(name))),
}

export function isAgentFile(path: string): boolean {
  return Object.hasOwn(AGENT_FILES, path)
}

/** Compressed files that are kept, of the agents that were used last. */
const KEPT_MAX = 200

/** Files that depend on the agent and on limits, both of which may change. */
export class AgentLinkFiles {
  readonly #kept = new Map<string, ScriptHandler>()

  get(path: string, agent: AgentProfile, limits: FileLimits): ScriptHandler | undefined {
    const build = isAgentFile(path) ? AGENT_FILES[path] : undefined
    if (!build) return undefined
    const key = JSON.stringify([path, agent, limits])
    const handler = this.#kept.get(key) ?? createScriptHandler(() => build(agent, limits))
    this.#kept.delete(key)
    this.#kept.set(key, handler)
    const [oldest = ''] = this.#kept.keys()
    if (this.#kept.size > KEPT_MAX) this.#kept.delete(oldest)
    return handler
  }
}

/** The page keeps the service worker from other origins, and lets it reach only its own. */
const OWN_ORIGIN = { 'Content-Security-Policy': "default-src 'none'; connect-src 'self'; frame-ancestors 'none'" }

function file(type: string, body: string | Uint8Array, headers: Readonly<Record<string, string>> = {}): StaticFile {
  return {
    headers: { 'Content-Type': type, 'Cross-Origin-Resource-Policy': 'cross-origin', ...PRIVACY_HEADERS, ...headers },
    body,
  }
}

const BUBBLE_SVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="${BUBBLE_COLOR}" d="${BUBBLE_PATH}"/></svg>`

/** The URLs are relative to the manifest, so they stay on the link. */
function manifest(name: string) {
  const png = (src: string, sizes: string, purpose: string) => ({ src, sizes, type: 'image/png', purpose })
  return {
    name,
    short_name: name,
    start_url: './',
    scope: './',
    display: 'standalone',
    background_color: '#ffffff',
    theme_color: '#ffffff',
    icons: [
      { src: 'icon.svg', sizes: 'any', type: 'image/svg+xml', purpose: 'any' },
      png('icon-192.png', '192x192', 'any'),
      png('icon-512.png', '512x512', 'any'),
      png('icon-maskable.png', '512x512', 'maskable'),
    ],
  }
}
