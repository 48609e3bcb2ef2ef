// The style sheets of the chat: one for the page and the widget, one for the page only.

import { AVATAR_STYLE } from '../avatar.ts'
import { DARK_COLORS, DARK_TOKENS, LIGHT_COLORS, LIGHT_TOKENS } from '../tokens.ts'

const [LIGHT, DARK] = [LIGHT_COLORS + LIGHT_TOKENS, DARK_COLORS + DARK_TOKENS]

/**
 * For the page, the button of the widget and its panel: `:host` matches nothing in a page, `body` nothing in a shadow tree.
 * `--accent` is a background; `--ink` is drawn on the background of the chat, for which the colour of a site may be too bright.
 */
const BASE_STYLE = `
:host { all: initial }
:host, body { ${LIGHT} --ink: var(--accent); color-scheme: light dark }
@media (prefers-color-scheme: dark) { :host, body { ${DARK} } }
:host([data-theme='light']), [data-theme='light'] body { ${LIGHT} color-scheme: light }
:host([data-theme='dark']), [data-theme='dark'] body { ${DARK} color-scheme: dark }
*, *::before, *::after { box-sizing: border-box }
[hidden] { display: none !important }
.hidden {
  position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; border: 0; padding: 0;
}
button, textarea { font: inherit; color: inherit }
button { cursor: pointer }
:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px }
svg { width: 20px; height: 20px; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round; flex: none }
.icon {
  display: inline-grid; place-items: center; flex: none; width: 40px; height: 40px; padding: 0; border: 0;
  border-radius: 10px; background: none; color: var(--muted);
}
.icon:hover { background: var(--raised); color: var(--text) }
.quiet, .more {
  display: inline-flex; align-items: center; gap: 5px; min-height: 28px; padding: 2px 7px; border: 0; border-radius: 8px;
  background: none; color: var(--muted); font-size: 12.5px;
}
.app, .panel {
  container: chat / inline-size; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Ubuntu, Cantarell, 'DejaVu Sans', sans-serif;
  -webkit-text-size-adjust: 100%; text-align: start;
}
`

/** Of the chat itself. */
export const CHAT_STYLE = `${AVATAR_STYLE}
.chat { position: relative; display: flex; height: 100%; overflow: hidden }
.column { display: flex; flex-direction: column; flex: 1; min-width: 0 }
.main { display: flex; flex-direction: column; flex: 1; min-height: 0 }

.head {
  display: flex; align-items: center; gap: 10px; padding: 10px 14px; min-height: 60px;
  padding-top: max(10px, env(safe-area-inset-top)); border-bottom: 1px solid var(--line);
}
.head h1 { margin: 0; font-size: 17px; line-height: 1.3; font-weight: 650 }
.title { flex: 1; min-width: 0 }
.title > * { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.title p { margin: 0; font-size: 13px; line-height: 1.3; color: var(--muted) }
.nav {
  position: absolute; inset-block: 0; inset-inline-start: 0; z-index: 3; width: min(300px, 84%);
  display: flex; flex-direction: column; gap: 8px; padding: 14px 12px; overflow-y: auto;
  padding-top: max(14px, env(safe-area-inset-top)); background: var(--raised); border-inline-end: 1px solid var(--line);
  visibility: hidden; transform: translateX(-100%); transition: transform .18s ease, visibility .18s;
}
.nav:dir(rtl) { transform: translateX(100%) }
.with-topics .nav { visibility: visible; transform: none; transition: transform .18s ease }
.nav h2 { margin: 4px 8px; font-size: 13px; font-weight: 600; color: var(--muted) }
.nav ul { list-style: none; margin: 0; padding: 0; display: flex; flex-direction: column; gap: 2px }
.nav li { position: relative; display: flex; align-items: center; border-radius: 10px }
.nav li:hover, .nav li:has([aria-current]) { background: var(--bubble) }
.topic {
  flex: 1; min-width: 0; padding: 9px 10px; border: 0; border-radius: 10px; background: none; text-align: start;
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-size: 15px;
}
.topic[aria-current] { font-weight: 600 }
.remove { position: absolute; inset-inline-end: 4px; width: 32px; height: 32px; opacity: 0 }
.remove svg { width: 16px; height: 16px }
li:hover .remove, .remove:focus-visible { opacity: 1 }
li:hover .topic { padding-inline-end: 38px }
@media (hover: none) { .remove { opacity: 1 } .topic { padding-inline-end: 38px } }
.new-topic {
  display: flex; align-items: center; gap: 8px; padding: 9px 10px; border: 1px solid var(--line); border-radius: 10px;
  background: var(--back); font-size: 15px; font-weight: 550;
}
.all-topics { display: flex; flex-direction: column; gap: 6px; margin-top: 10px }
.all-topics[hidden] { display: none }
.all-topics input { width: 100%; padding: 8px 10px; border: 1px solid var(--line); border-radius: 10px; background: var(--back); color: var(--text); font-size: 15px }
.all-topics .more { align-self: center }
.change { width: 32px; height: 32px; opacity: 0 }
.change svg { width: 16px; height: 16px }
li:hover .change, li:focus-within .change { opacity: 1 }
@media (hover: none) { .change { opacity: 1 } }
.confirm { padding: 8px 10px; font-size: 14px; overflow-wrap: anywhere }
.confirm .more { margin-inline-start: 6px }
.confirm input + .more { margin-inline-start: 0 }
.topics-note { margin: 0 8px; font-size: 14px; color: var(--muted); overflow-wrap: anywhere }
.refused { align-self: stretch; margin-top: 6px }
.new-topic:hover { border-color: var(--ink) }
.backdrop {
  position: absolute; inset: 0; z-index: 2; background: rgb(0 0 0 / .4); opacity: 0; pointer-events: none;
  transition: opacity .18s ease;
}
.with-topics .backdrop { opacity: 1; pointer-events: auto }
@container chat (min-width: 860px) {
  .nav, .nav:dir(rtl) { position: static; width: 272px; flex: none; visibility: visible; transform: none }
  .toggle, .start, .backdrop { display: none }
}

.log { flex: 1; min-height: 0; overflow: hidden auto; overscroll-behavior: contain; scrollbar-gutter: stable both-edges; outline-offset: -3px }
.conversation, .welcome { max-width: 760px; margin: 0 auto; padding: 18px 16px 4px }
.list { display: flex; flex-direction: column; gap: 18px }
.welcome { padding-top: min(18vh, 120px); text-align: center; color: var(--muted) }
.welcome .avatar { width: 60px; height: 60px; border-radius: 20px }
.welcome p { margin: 6px auto; max-width: 34em; font-size: 15px }
.greeting { white-space: pre-line; overflow-wrap: anywhere }
.welcome .greeting { color: var(--text); font-size: 16px }
.starters { display: flex; flex-wrap: wrap; justify-content: center; gap: 8px; margin: 18px 0 14px; padding: 0; list-style: none }
.starters button {
  padding: 9px 14px; border: 1px solid var(--line); border-radius: 14px; background: var(--raised); color: var(--text);
  font-size: 15px; text-align: start; overflow-wrap: anywhere;
}
.starters button:hover { border-color: var(--ink) }
.welcome .lead { margin-top: 16px; font-size: 22px; font-weight: 650; color: var(--text) }

.message { min-width: 0; max-width: 100%; overflow-wrap: anywhere }
.message.user { align-self: flex-end; max-width: 86%; display: flex; flex-direction: column; align-items: flex-end }
.text { padding: 9px 14px; border-radius: 18px; border-bottom-right-radius: 5px; background: var(--bubble); white-space: pre-wrap; max-width: 100% }
.message.agent { align-self: stretch }
.unsent .text { opacity: .65 }
.delivery { margin: 4px 4px 0; font-size: 13px; color: var(--muted) }
.foot { display: flex; flex-wrap: wrap; align-items: center; gap: 0 8px; min-height: 24px; margin-top: 3px; font-size: 12.5px; color: var(--muted) }
.user .foot { min-height: 0; margin-inline-end: 4px }
.agent > .foot .quiet { margin-inline-start: -7px }
.quiet svg { width: 14px; height: 14px }
.versions { display: inline-flex; align-items: center; gap: 2px }
.versions .quiet { padding: 2px 4px }
.versions .quiet:disabled { opacity: .4 }
.user .foot { justify-content: flex-end }
/* Its space is kept, so that the end of an answer moves nothing. */
.foot .act[hidden] { display: inline-flex !important; visibility: hidden }
@media (hover: hover) {
  .user .act { opacity: 0 }
  .user:hover .act, .user:focus-within .act { opacity: 1 }
}
.editing { align-self: stretch; max-width: 100% }
.editing > .text, .editing > .foot, .editing > .more { display: none }
.edit { width: 100%; padding: 10px; border: 1px solid var(--line); border-radius: 16px; background: var(--bubble) }
.edit textarea { display: block; width: 100%; padding: 4px 6px; border: 0; background: none; font-size: inherit; resize: vertical; field-sizing: content; max-height: 50vh }
.edit-buttons { display: flex; justify-content: flex-end; gap: 8px }
.quiet:hover, .more:hover { background: var(--raised); color: var(--text) }
.more { border: 1px solid var(--line); color: var(--text); padding: 3px 12px; font-size: 13.5px; margin-top: 6px }
.cut > .prose, .cut > .text { mask-image: linear-gradient(#000 calc(100% - 70px), #0003) }

.prose > :first-child { margin-top: 0 }
.prose > :last-child { margin-bottom: 0 }
.prose p, .prose ul, .prose ol, .prose blockquote, .prose .code, .prose .wide { margin: 0 0 12px }
.prose h2, .prose h3, .prose h4, .prose h5, .prose h6 { margin: 20px 0 8px; line-height: 1.3; font-size: 1.05em; font-weight: 650 }
.prose h3 { font-size: 1.25em }
.prose h4 { font-size: 1.12em }
.prose ul, .prose ol { padding-inline-start: 1.6em }
.prose li { margin: 3px 0 }
.prose li > p:last-child, .prose li > ul, .prose li > ol { margin-bottom: 4px }
.prose blockquote { padding-inline-start: 14px; border-inline-start: 3px solid var(--line); color: var(--muted) }
.prose a { color: var(--ink); text-underline-offset: 2px }
.prose hr { border: 0; border-top: 1px solid var(--line); margin: 18px 0 }
.prose code, .prose pre { font-family: ui-monospace, 'SF Mono', SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace }
.prose code { font-size: .875em; padding: .15em .35em; border-radius: 5px; background: var(--code) }
.prose pre { margin: 0; padding: 12px 14px; overflow-x: auto; tab-size: 4; font-size: 14px; line-height: 1.5; white-space: pre; overflow-wrap: normal }
.prose pre code { padding: 0; background: none; font-size: inherit }
.prose > pre { border-radius: 12px; background: var(--code); margin-bottom: 12px }
.code { border: 1px solid var(--line); border-radius: 12px; background: var(--code); overflow: hidden }
.code-bar { display: flex; align-items: center; justify-content: space-between; padding: 3px 6px 3px 14px; border-bottom: 1px solid var(--line); font-size: 12.5px; color: var(--muted) }
.token-keyword { color: var(--token-keyword) }
.token-string { color: var(--token-string) }
.token-class { color: var(--token-class) }
.token-property { color: var(--token-property) }
.token-comment { color: var(--muted); font-style: italic }
.code pre:focus-visible { outline-offset: -3px }
.wide { overflow-x: auto }
.prose table { border-collapse: collapse; font-size: 15px }
.prose th, .prose td { padding: 6px 12px; border: 1px solid var(--line); text-align: start; vertical-align: top; overflow-wrap: normal }
.prose .align-left { text-align: left }
.prose .align-center { text-align: center }
.prose .align-right { text-align: right }
.prose li:has(> input, > p:first-child > input) { list-style: none }
.prose li input { width: 1em; height: 1em; margin: 0 .45em 0 -1.4em; margin-inline: -1.4em .4em; vertical-align: -.12em; accent-color: var(--accent) }
.prose sup { font-size: .75em; line-height: 0 }
.prose .footnote { font-size: .9em; color: var(--muted) }
.prose th { background: var(--raised); font-weight: 600 }

.status, .note { margin: 0; font-size: 14.5px; color: var(--muted) }
.status { display: flex; align-items: center; gap: 10px; min-height: 28px }
.working { padding-top: 10px; overflow-anchor: none }
.draft { padding-top: 8px }
.draft + .status { min-height: 27px }
.fault { margin: 0; padding: 9px 14px; border: 1px solid var(--fault); border-radius: 12px; color: var(--fault); font-size: 15px; overflow-wrap: anywhere }
.doing { min-width: 0; overflow-wrap: anywhere }
.calls { font-size: 13.5px; color: var(--muted) }
.calls summary { cursor: pointer }
.calls ol { margin: 4px 0; padding-inline-start: 20px }
.calls pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere }
.status .quiet { margin-inline-start: auto }
.dots { display: inline-flex; gap: 4px }
.dots i { width: 6px; height: 6px; border-radius: 50%; background: var(--ink); animation: dot 1.2s infinite ease-in-out }
.dots i:nth-child(2) { animation-delay: .15s }
.dots i:nth-child(3) { animation-delay: .3s }
@keyframes dot { 0%, 60%, 100% { opacity: .25 } 30% { opacity: 1 } }

.dock { position: relative; width: 100%; max-width: 792px; margin: 0 auto; padding: 8px 16px; padding-bottom: max(10px, env(safe-area-inset-bottom)) }
.latest {
  position: absolute; bottom: calc(100% + 8px); left: 50%; transform: translateX(-50%); display: flex; align-items: center;
  gap: 6px; padding: 5px 14px 5px 10px; border: 1px solid var(--line); border-radius: 99px; background: var(--back);
  font-size: 13.5px; box-shadow: 0 3px 12px rgb(0 0 0 / .14);
}
.latest svg { width: 16px; height: 16px }
.notice { margin-bottom: 8px; padding: 9px 14px; border-radius: 12px; background: var(--warn); color: var(--on-warn); font-size: 14.5px; overflow-wrap: anywhere }
.notice p { margin: 0 }
.box {
  display: flex; flex-wrap: wrap; align-items: flex-end; gap: 4px; padding: 5px; border: 1px solid var(--line); border-radius: 24px;
  background: var(--raised); transition: border-color .15s;
}
.box:focus-within { border-color: var(--ink); box-shadow: 0 0 0 1px var(--ink) }
.box textarea {
  flex: 1; min-width: 0; max-height: 38dvh; margin: 0; padding: 7px 4px; border: 0; outline: 0; resize: none;
  background: none; font-size: 16px; line-height: 1.45; overflow-y: auto;
}
.box textarea::placeholder { color: var(--muted); opacity: 1; white-space: nowrap }
.box textarea:is(:disabled, :read-only) { color: var(--muted); cursor: not-allowed }
.send, .finish {
  display: grid; place-items: center; flex: none; width: 38px; height: 38px; padding: 0; border: 0; border-radius: 50%;
  background: var(--accent); color: var(--on-accent);
}
.send:disabled { background: var(--line); color: var(--muted); cursor: default }
.box > .icon { width: 38px; height: 38px; border-radius: 50% }
.box > .icon:hover { background: var(--line) }
.box .icon:disabled { opacity: .4; cursor: default }
@container chat (max-width: 560px) { .has-text > :is(.camera, .mic) { display: none } }
.recording > :not(.recorder, .chips, .hidden) { display: none }
.recorder { flex: 1; display: flex; align-items: center; gap: 8px; font-size: 15px; font-variant-numeric: tabular-nums }
.finish { margin-inline-start: auto }
.live { width: 10px; height: 10px; border-radius: 50%; background: var(--fault); animation: dot 1.6s infinite ease-in-out }
.dropping::after {
  content: attr(data-drop); position: absolute; inset: 10px; z-index: 4; display: grid; place-items: center;
  border: 2px dashed var(--ink); border-radius: 16px; background: color-mix(in srgb, var(--back) 88%, transparent); font-weight: 600;
  padding: 20px; text-align: center; pointer-events: none;
}
.chips {
  flex: 0 0 100%; display: flex; flex-wrap: wrap; gap: 8px; max-height: 30dvh; margin: 0; padding: 6px 6px 4px; overflow-y: auto;
  list-style: none;
}
.chip, .file {
  display: flex; align-items: center; gap: 10px; min-width: 0; max-width: 100%; padding: 7px; border: 1px solid var(--line);
  border-radius: 14px; background: var(--back); color: var(--text); text-align: start; text-decoration: none;
}
.chip { position: relative; width: 230px; padding-inline-end: 34px }
.chip.image { width: 64px; height: 64px; padding: 0; border: 0 }
.chip.image > img { width: 64px; height: 64px; border-radius: 14px; border: 1px solid var(--line); object-fit: cover }
.chip.audio { width: 330px; border-radius: 99px }
.chip audio { flex: 1; min-width: 0; height: 36px }
.chip .drop { position: absolute; inset-inline-end: 4px; width: 28px; height: 28px; border-radius: 50% }
.chip.image .drop {
  inset-block-start: -4px; inset-inline-end: -4px; width: 24px; height: 24px; border: 1px solid var(--line); background: var(--back); color: var(--text);
}
.chip .drop svg { width: 15px; height: 15px }
.tile {
  display: grid; place-items: center; flex: none; width: 38px; height: 38px; border-radius: 9px; background: var(--accent);
  color: var(--on-accent); font-size: 11px; font-weight: 700; letter-spacing: .02em;
}
.file-text { display: flex; flex-direction: column; flex: 1; min-width: 0; font-size: 14px; line-height: 1.35 }
.file-text > * { align-self: flex-start; max-width: 100% }
.file-text b { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; font-weight: 600 }
.file-text small, .sound figcaption { font-size: 12.5px; color: var(--muted) }
.files { display: flex; flex-direction: column; gap: 8px; max-width: 100% }
.user .files { align-items: flex-end }
:is(.text, .prose) + .files { margin-top: 8px }
.file { width: 280px }
.file > svg { width: 18px; height: 18px; margin-inline: auto 4px; color: var(--muted) }
a.file:hover, button.file:hover { border-color: var(--ink) }
.pictures { display: flex; flex-wrap: wrap; gap: 6px; max-width: 100% }
.user .pictures { justify-content: flex-end }
.picture {
  display: grid; place-items: center; height: 240px; min-width: 120px; max-width: 100%; border: 1px solid var(--line); border-radius: 14px;
  background: var(--raised); color: var(--muted); font-size: 13px; overflow: hidden;
}
.picture img { display: block; width: auto; height: 238px; max-width: 100%; object-fit: contain }
.picture span { padding: 10px }
.several .picture { width: 148px; height: 148px }
.several .picture img { width: 100%; height: 100%; object-fit: cover }
.sound { width: 320px; max-width: 100%; margin: 0 }
.sound audio { display: block; width: 100%; height: 44px }
.sound figcaption { margin: 3px 6px 0; line-height: 1.35 }
.transcript { margin: 6px 6px 0; font-size: 14.5px; white-space: pre-wrap }
.delivery:has(progress) { display: flex; align-items: center; gap: 8px; white-space: nowrap }
.delivery progress { flex: 1; width: 100px; min-width: 40px; height: 6px; accent-color: var(--ink) }
.unsent .files { opacity: .75 }
.keys { display: block; margin-top: 5px; text-align: center; font-size: 12px; color: var(--muted) }
@container chat (max-width: 560px) { .keys { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) } }
@media (hover: none) { .keys { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) } }

/* Backgrounds are gone there. */
@media (forced-colors: active) {
  .text, .notice, .tile, .avatar { outline: 1px solid }
  .send, .finish { border: 1px solid }
  .dots i, .live { background: CanvasText }
  .topic[aria-current] { text-decoration: underline }
}
@media (prefers-reduced-motion: reduce) {
  *, *::before, *::after { animation: none !important; transition: none !important }
}
`

/** Of the widget before its chat is loaded. */
export const WIDGET_STYLE = `${BASE_STYLE}
.frame { position: fixed; z-index: 2147483000; inset-block-end: 0; font: 16px/1.5 system-ui, sans-serif }
.frame.right { right: 0 }
.frame.left { left: 0 }
.launcher {
  position: fixed; bottom: calc(20px + env(safe-area-inset-bottom) + var(--level) * 64px); display: flex; align-items: center; gap: 9px;
  height: 52px; max-width: calc(100vw - 40px); padding: 0 20px 0 16px; border: 0; border-radius: 26px; background: var(--accent); color: var(--on-accent);
  font-size: 16px; font-weight: 600; box-shadow: 0 6px 22px rgb(0 0 0 / .22); transition: transform .15s;
}
.launcher:hover { transform: translateY(-2px) }
.label { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
/* Two rings of opposite brightness, visible on any site. */
.launcher:focus-visible { outline: 3px solid var(--text); outline-offset: 2px; box-shadow: 0 0 0 8px var(--back) }
.right .launcher { right: calc(20px + env(safe-area-inset-right)) }
.left .launcher { left: calc(20px + env(safe-area-inset-left)) }
.has-unread::after { content: ''; position: absolute; top: -2px; right: 2px; width: 14px; height: 14px; border-radius: 50%; background: #e5484d; border: 2px solid #fff }
.panel {
  position: fixed; bottom: calc(84px + env(safe-area-inset-bottom) + var(--level) * 64px); width: min(400px, 100vw - 40px);
  height: min(640px, 100dvh - 110px - var(--level) * 64px); border: 1px solid var(--line); border-radius: 18px; overflow: hidden;
  box-shadow: 0 18px 60px rgb(0 0 0 / .28); animation: rise .16s ease;
}
.right .panel { right: 20px }
.left .panel { left: 20px }
@keyframes rise { from { opacity: 0; transform: translateY(10px) } }
@media (max-width: 520px) {
  .panel { inset: 0 !important; width: auto; height: auto; border: 0; border-radius: 0 }
  .panel:not([hidden]) + .launcher { visibility: hidden }
}
@media (forced-colors: active) { .launcher { border: 1px solid } }
@media (prefers-reduced-motion: reduce) { .launcher, .panel { animation: none; transition: none } }
.panel > .close { float: inline-end; margin: 8px }
.note { margin: 20px; color: var(--muted) }
`

/** For the chat page and the pages that work without script. */
export const PAGE_STYLE = `${BASE_STYLE}${CHAT_STYLE}
[data-theme='light'] { color-scheme: light }
[data-theme='dark'] { color-scheme: dark }
html, body { height: 100%; margin: 0; background: var(--back) }
.app { height: 100vh; height: 100dvh; overflow: auto }
.app:has(> .chat) { overflow: hidden }
/* Delayed, because the script usually replaces it first. */
#chat > .plain { animation: appear 1ms .4s backwards }
@keyframes appear { from { visibility: hidden } }
.plain { max-width: 760px; margin: 0 auto; padding: 0 16px 24px }
.plain .head { padding-inline: 0 }
.plain .lead { color: var(--muted) }
.plain main { display: flex; flex-direction: column; gap: 18px; padding: 18px 0 }
.plain section { margin: 0 }
.plain .text { margin: 0 }
.plain .files { display: flex; flex-wrap: wrap; gap: 8px 16px; margin: 8px 0 0; padding: 0; list-style: none }
.plain .files img { max-width: min(100%, 320px); max-height: 320px; border-radius: 8px }
.plain .files audio { max-width: 100% }
.plain-form small { color: var(--muted) }
.plain .answer { display: flex; flex-direction: column; gap: 16px }
.plain-form { display: flex; flex-direction: column; gap: 8px; align-items: flex-start }
.plain-form label { font-weight: 600 }
.plain-form textarea {
  width: 100%; padding: 10px 14px; border: 1px solid var(--line); border-radius: 14px; background: var(--raised); font-size: 16px; resize: vertical;
}
.plain-form button { padding: 9px 22px; border: 0; border-radius: 99px; background: var(--accent); color: var(--on-accent); font-weight: 600 }
.problem { max-width: 34em; margin: 14vh auto 0; gap: 10px !important; overflow-wrap: anywhere }
.problem > * { margin: 0 }
.problem h1 { font-size: 26px; line-height: 1.25 }
.problem .code { border: 0; background: none; color: var(--muted); font-weight: 650; letter-spacing: .04em }
`
