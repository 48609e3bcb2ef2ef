// The style sheet of the dashboard: calm and dense; colour means state.
import { AVATAR_STYLE } from '../avatar.ts'
import { CODE_FONT, DARK_COLORS, DARK_STATES, FONT, LIGHT_COLORS, LIGHT_STATES } from '../tokens.ts'

const [LIGHT, DARK] = [`${LIGHT_COLORS}${LIGHT_STATES}`, `${DARK_COLORS}${DARK_STATES}`]

export const DASH_STYLE = `
:root { ${LIGHT} color-scheme: light }
@media (prefers-color-scheme: dark) { :root { ${DARK} color-scheme: dark } }
:root[data-theme='light'] { ${LIGHT} color-scheme: light }
:root[data-theme='dark'] { ${DARK} color-scheme: dark }
*, *::before, *::after { box-sizing: border-box }
[hidden] { display: none !important }
${AVATAR_STYLE}
.who { display: flex; align-items: center; gap: 10px; overflow-wrap: anywhere }
.who strong { margin-inline-end: 8px }
body { margin: 0; background: var(--back); color: var(--text); font: 14.5px/1.5 ${FONT}; -webkit-text-size-adjust: 100% }
a { color: var(--accent); text-underline-offset: 2px; text-decoration-thickness: 1px; text-decoration-color: color-mix(in srgb, currentcolor 45%, transparent) }
a:hover { text-decoration-color: currentcolor }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px }
.skip { position: absolute; left: -999px }
.skip:focus { left: 8px; top: 8px; z-index: 9; padding: 8px 12px; background: var(--back); border: 1px solid var(--edge) }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
.top { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 16px; padding: 8px 20px; background: var(--raised); border-bottom: 1px solid var(--line) }
.brand { font-weight: 700; font-size: 17px; color: var(--text); text-decoration: none }
.brand span { font-weight: 400; color: var(--muted) }
.tools { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 12px; margin-left: auto }
.person { color: var(--text); text-decoration: none; overflow-wrap: anywhere }
.person:hover { text-decoration: underline }
.connection { font-size: 13px; color: var(--muted) }
.connection.lost { color: var(--fault); font-weight: 600 }
kbd { font: 12px ${CODE_FONT}; padding: 1px 5px; border: 1px solid var(--line); border-radius: 4px; color: var(--muted) }
.columns { display: grid; grid-template-columns: 200px minmax(0, 1fr) }
.side { padding: 14px 12px 40px 20px; border-right: 1px solid var(--line); min-height: calc(100vh - 52px) }
.side summary { display: none }
.side h2 { margin: 14px 8px 4px; font-size: 12px; font-weight: 600; color: var(--muted); text-transform: uppercase; letter-spacing: .04em }
.side ul { list-style: none; margin: 0; padding: 0 }
.side a { display: block; padding: 4px 8px; border-radius: 6px; color: var(--text); text-decoration: none }
.side a:hover { background: var(--raised) }
.side a[aria-current] { background: var(--bubble); font-weight: 600 }
main { padding: 18px 24px 64px; max-width: 1400px; min-width: 0 }
main:focus { outline: none }
h1 { margin: 0 0 14px; font-size: 22px; line-height: 1.3; overflow-wrap: anywhere }
h2 { margin: 0; font-size: 16px; line-height: 1.4 }
#live > h2 { margin: 26px 0 8px }
h3 { margin: 14px 0 4px; font-size: 14.5px }
section { margin: 26px 0 }
h1 + section, .tabs + section, #live > section:first-child { margin-top: 14px }
.tabs + #live > section:first-child { margin-top: 0 }
main ul:not([class]) { margin: 0 0 10px; padding-left: 20px }
p { margin: 0 0 10px; overflow-wrap: anywhere; max-width: 75ch }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 14px; margin: 0 0 8px }
.nowrap { white-space: nowrap }
/* What a page waits for; hidden once anything follows. */
.progress:not(:last-child) { display: none }
.muted, .hint, small { color: var(--muted); font-size: 13px }
code, pre { font: 13px/1.5 ${CODE_FONT} }
code { background: var(--code); padding: .1em .35em; border-radius: 4px; overflow-wrap: anywhere }
pre { margin: 0 0 10px; padding: 10px 12px; overflow-x: auto; background: var(--code); border: 1px solid var(--line); border-radius: 8px }
pre.text, pre.log { white-space: pre-wrap; overflow-wrap: anywhere }
[data-wrap=off] pre.log { white-space: pre; overflow-wrap: normal }
mark { background: var(--warn); color: var(--on-warn); border-radius: 3px }
mark:target { outline: 2px solid var(--accent) }
pre.text { font-family: inherit; font-size: 14px }
.copy { display: inline-flex; flex-wrap: wrap; gap: 6px; align-items: center; max-width: 100% }
.copy code { user-select: all }
.badge { display: inline-block; padding: 0 8px; border-radius: 99px; background: var(--idle-back); color: var(--text); font-size: 12.5px; line-height: 1.6; white-space: nowrap }
.badge.ok { background: var(--ok-back); color: var(--ok) }
.badge.warn { background: var(--warn); color: var(--on-warn) }
.badge.fault { background: var(--fault-back); color: var(--fault) }
.badge.busy { background: var(--busy-back); color: var(--busy) }
.count { color: var(--muted); font-variant-numeric: tabular-nums }
.notice { margin: 0 0 14px; padding: 9px 14px; border-radius: 8px; background: var(--ok-back); color: var(--ok); overflow-wrap: anywhere }
.notice.warn { background: var(--warn); color: var(--on-warn) }
.notice.fault { background: var(--fault-back); color: var(--fault) }
.notice a, .notice code { color: inherit; background: none }
.tabs { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 0 0 16px; border-bottom: 1px solid var(--line) }
.tabs a { padding: 6px 0 7px; margin-bottom: -1px; color: var(--muted); text-decoration: none; border-bottom: 2px solid transparent }
.tabs a:hover { color: var(--text) }
.tabs a[aria-current] { color: var(--text); font-weight: 600; border-bottom-color: var(--accent) }
.scroll { position: relative; overflow-x: auto; margin: 0 0 10px }
table { width: 100%; border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums }
th { text-align: left; font-size: 12.5px; font-weight: 600; color: var(--muted) }
th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { vertical-align: bottom }
td { overflow-wrap: break-word }
td.long, td.prose { overflow-wrap: anywhere; min-width: 12ch }
td.prose { min-width: 18ch }
td .muted { font-size: inherit }
td code { overflow-wrap: inherit }
.number + :not(.number) { padding-left: 12px }
tbody tr:hover { background: var(--raised) }
.number { text-align: right; white-space: nowrap }
td.actions { text-align: right; padding: 2px 0; white-space: nowrap }
td.actions .button, td.actions .copy { margin-left: 6px }
td.actions form, .bar form { display: inline-block; margin: 0 0 0 6px }
td pre, td pre.text { margin: 0; padding: 0; background: none; border: 0; font-size: inherit }
.more { margin-top: 10px }
.empty { padding: 14px 16px; border: 1px dashed var(--edge); border-radius: 10px; margin: 0 0 14px }
.empty > :last-child { margin-bottom: 0 }
.empty .button { margin: 0 4px 6px 0 }
.details { display: grid; gap: 0; margin: 0 0 14px }
.details > div { display: grid; grid-template-columns: 160px minmax(0, 1fr); gap: 12px; padding: 5px 0; border-bottom: 1px solid var(--line) }
.details dt { color: var(--muted) }
.details dd { margin: 0; overflow-wrap: anywhere }
.details pre.text { margin: 0; padding: 0; background: none; border: 0; font-size: inherit }
form { margin: 0 }
.inline { display: inline-block }
dd .inline, .timeline .inline { margin-left: 6px; vertical-align: middle }
.form { max-width: 560px; margin: 0 0 18px }
.form.one-line { display: flex; flex-wrap: wrap; gap: 0 8px; margin: 0 0 12px }
.one-line .field { flex: 1; min-width: 12em; margin: 0 }
.one-line > .notice { flex-basis: 100% }
.one-line > button { align-self: flex-start; margin-top: 24px }
.form.one-line:has(+ .one-line) > .primary, .one-line + .one-line > .primary { background: var(--back); border-color: var(--edge); color: var(--text) }
.form.editor { max-width: 900px }
.editor textarea { font: 13px/1.5 ${CODE_FONT} }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(380px, 100%), 1fr)); gap: 0 32px }
.field { margin: 0 0 12px; max-width: 560px }
.editor .field { max-width: none }
label { display: block; font-weight: 600; font-size: 13.5px; margin: 0 0 3px }
label .muted { font-weight: 400 }
.check label { font-weight: 400 }
input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea {
  width: 100%; min-height: 36px; padding: 6px 10px; border: 1px solid var(--edge); border-radius: 7px; background: var(--back); color: inherit; font: inherit;
}
#times { width: auto; min-height: 30px; padding: 2px 6px; font-size: 13.5px }
textarea { resize: vertical }
.field .hint, .field-fault { display: block; margin-top: 3px }
.field-fault { color: var(--fault); overflow-wrap: anywhere }
[aria-invalid] { border-color: var(--fault) }
button, .button {
  display: inline-flex; align-items: center; gap: 8px; min-height: 36px; padding: 5px 14px; border: 1px solid var(--edge); border-radius: 7px;
  background: var(--back); color: var(--text); font: inherit; font-weight: 600; text-decoration: none; cursor: pointer;
}
button:hover, .button:hover { border-color: var(--accent) }
.quiet { min-height: 30px; padding: 2px 10px; font-weight: 500; font-size: 13.5px }
.list .button, .bar .button, td.actions .button { min-height: 30px; padding: 2px 10px; font-weight: 500; font-size: 13.5px }
.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent) }
.danger { color: var(--fault) }
.filters { display: flex; flex-wrap: wrap; align-items: end; gap: 8px 10px; margin: 0 0 16px }
.filters .field { margin: 0; min-width: 120px }
.filters .quiet { min-height: 32px }
.filters input, .filters select { min-height: 32px; padding: 3px 8px }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(180px, calc(50% - 6px)), 1fr)); gap: 12px; margin: 0 0 18px }
.card { padding: 12px 14px; border: 1px solid var(--line); border-radius: 10px; background: var(--raised) }
.card.wide { grid-column: 1 / -1 }
.card .figure { margin: 0; font-size: 22px; font-weight: 650; font-variant-numeric: tabular-nums }
.list { list-style: none; margin: 0 0 14px; padding: 0; border-top: 1px solid var(--line) }
.list > li { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 14px; padding: 8px 0; border-bottom: 1px solid var(--line) }
.list > li > .badge:first-child { min-width: 112px; text-align: center }
.list .what { flex: 1; min-width: 12em; overflow-wrap: anywhere }
.choices, .plain { list-style: none; margin: 0 0 14px; padding: 0 }
.choices > li { padding: 4px 0; border-bottom: 1px solid var(--line) }
.choices > li[aria-current] a { font-weight: 600 }
td .plain { margin: 0 }
.list .details { margin: 4px 0 0 }
.list .details > div:last-child { border: 0; padding-bottom: 0 }
.choice { display: flex; flex-wrap: wrap; align-items: center; gap: 10px; margin: 0 0 14px }
.choice .form { margin: 0 }
.timeline { list-style: none; margin: 0 0 14px; padding: 0 0 0 14px; border-left: 2px solid var(--line) }
.timeline > li { margin: 0 0 10px; overflow-wrap: anywhere }
.name { display: inline-block; min-width: min(12ch, 100%) }
.chart { margin: 0 }
.chart figcaption { font-size: 13px; color: var(--muted); margin: 0 0 4px }
.chart svg { display: block; width: 100%; height: 48px }
.chart.wide svg { height: 96px }
.axis { display: flex; justify-content: space-between; gap: 12px; margin-top: 4px; font-size: 12.5px; color: var(--muted); font-variant-numeric: tabular-nums }
.chart rect { fill: var(--accent) }
.chart line { stroke: var(--fault); stroke-width: 1; vector-effect: non-scaling-stroke }
.fold summary { cursor: pointer; color: var(--accent) }
.fold .start { color: var(--text); white-space: pre-wrap; overflow-wrap: anywhere }
.fold[open] .start { display: none }
details > summary { cursor: pointer }
meter { width: 140px; height: 12px; vertical-align: middle }
ins { text-decoration: none; background: var(--ok-back); color: var(--ok) }
del { background: var(--fault-back); color: var(--fault) }
.qr { width: 200px; height: 200px; background: #fff; padding: 10px; border-radius: 8px; border: 1px solid var(--line) }
#held-updates { position: fixed; z-index: 2; top: 12px; left: 50%; transform: translateX(-50%); white-space: nowrap }
dialog { width: min(560px, 92vw); margin: 12vh auto auto; padding: 14px; border: 1px solid var(--edge); border-radius: 12px; background: var(--back); color: var(--text) }
dialog::backdrop { background: rgb(0 0 0 / .4) }
dialog ul { list-style: none; margin: 10px 0 0; padding: 0; max-height: 50vh; overflow-y: auto }
dialog li a { display: block; padding: 6px 8px; border-radius: 6px; color: inherit; text-decoration: none }
dialog li a:hover, dialog li a:focus { background: var(--bubble) }
@media (max-width: 860px) {
  .columns { grid-template-columns: minmax(0, 1fr) }
  .side { min-height: 0; padding: 6px 16px; border-right: 0; border-bottom: 1px solid var(--line) }
  .side summary { display: block; padding: 6px 0; font-weight: 600; cursor: pointer }
  .side a { padding: 9px 8px }
  main { padding: 14px 16px 48px }
  .top { padding: 8px 16px }
  button, .button, .quiet, .list .button, .bar .button, td.actions .button { min-height: 40px }
}
@media (max-width: 860px) and (scripting: none) {
  .side summary, .side h2 { display: none }
  .side details { display: flex; flex-wrap: wrap }
  .side details::details-content { display: contents }
  .side ul { display: contents }
  .side details { margin: 0 -8px }
  .side li a { padding: 7px 8px }
}
@media (max-width: 560px) {
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
  table, tbody, tr, td { display: block; width: 100% }
  tr { padding: 8px 0; border-bottom: 1px solid var(--line) }
  td, td.long, td.prose { display: flow-root; min-width: 0; padding: 2px 0 2px 116px; border: 0; text-align: left }
  td.number { text-align: left; white-space: normal }
  td::before { content: attr(data-label); float: left; width: 106px; margin-left: -116px; color: var(--muted); font-size: 13px }
  td.actions { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; padding: 6px 0 0 }
  td.actions::before { content: none }
  td.actions form, td.actions .button { margin: 0 }
  td:empty { display: none }
  .number + :not(.number) { padding-left: 116px }
  .number + .actions { padding-left: 0 }
  .list > li > .badge:first-child { min-width: 0 }
  .list > li > .muted { margin-left: auto }
  .list > li > .what { order: 1; flex-basis: 100% }
  .list > li > form, .list > li > .button { order: 2 }
  .filters { display: grid; grid-template-columns: 1fr 1fr }
  .filters .field { min-width: 0 }
  .filters .field:has([type=datetime-local], [placeholder]) { grid-column: 1 / -1 }
  .filters .quiet { justify-content: center; min-height: 40px }
  kbd { display: none }
  .details > div { grid-template-columns: 106px minmax(0, 1fr); gap: 10px }
  .tools { display: contents }
  #palette-open { margin-left: auto }
}
`
