// The files of a link besides its pages: scripts, and what a browser needs to install the page as an app. None depends on the link.
import { highlighterScript } from './highlighter.ts'
import { BUBBLE_COLOR, BUBBLE_PATH, drawIcon } from './icon.ts'
import { buildWidgetScript, type FileLimits, PRIVACY_HEADERS } from './page.ts'
import { buildScript, wrapInFunction } from './script.ts'
import { createScriptHandler, type ScriptHandler, type StaticFile } from './script-response.ts'

/** Of the service worker. A person's chat has none: it must not open without the session. */
export const OFFLINE_SCRIPT = 'sw.js'

/** By their path below the link. The limits may change. */
export function linkFiles(name: string, limits: () => FileLimits): ReadonlyMap<string, ScriptHandler> {
  const files: Readonly<Record<string, () => StaticFile>> = {
    'widget.js': () => buildWidgetScript(name, limits()),
    'highlight.js': () => file('text/javascript; charset=utf-8', highlighterScript().code),
    [OFFLINE_SCRIPT]: () =>
      file('text/javascript; charset=utf-8', wrapInFunction(buildScript('offline'), {}), OWN_ORIGIN),
    'manifest.webmanifest': () => file('application/manifest+json', JSON.stringify(manifest(name))),
    'icon.svg': () => file('image/svg+xml', BUBBLE_SVG),
    'icon-192.png': () => file('image/png', drawIcon({ size: 192, isMaskable: false })),
    'icon-512.png': () => file('image/png', drawIcon({ size: 512, isMaskable: false })),
    'icon-maskable.png': () => file('image/png', drawIcon({ size: 512, isMaskable: true })),
  }
  return new Map(Object.entries(files).map(([path, build]) => [path, createScriptHandler(build, () => limits().bytes)]))
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
