// The style sheet of the pages for people.
import { DARK_COLORS, LIGHT_COLORS } from '../tokens.ts'

export const ACCOUNT_STYLE = `
:root { ${LIGHT_COLORS} --ink: var(--accent); --edge: #858da0; color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { ${DARK_COLORS} --edge: #70788b } }
*, *::before, *::after { box-sizing: border-box }
body {
  margin: 0; min-height: 100vh; background: var(--raised); color: var(--text); -webkit-text-size-adjust: 100%;
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Ubuntu, Cantarell, 'DejaVu Sans', sans-serif;
}
header { display: flex; justify-content: space-between; align-items: center; gap: 16px; max-width: 640px; margin: 0 auto; padding: 14px 20px }
header a { display: inline-block; padding: 4px 0; color: var(--muted); text-decoration: none; overflow-wrap: anywhere }
header a:hover { color: var(--text); text-decoration: underline }
.brand { font-weight: 700; letter-spacing: .02em; font-size: 18px }
main {
  max-width: 600px; margin: 3vh auto 48px; padding: 32px; background: var(--back); border: 1px solid var(--line);
  border-radius: 18px; box-shadow: 0 1px 3px rgb(0 0 0 / .04);
}
@media (max-width: 660px) {
  body { background: var(--back) }
  header { padding: 10px 20px; background: var(--raised); border-bottom: 1px solid var(--line) }
  main { margin: 0; padding: 24px 20px 32px; border: 0; border-radius: 0; box-shadow: none }
}
h1 { margin: 0 0 12px; font-size: 26px; line-height: 1.25; letter-spacing: -.01em; overflow-wrap: anywhere }
h2 { margin: 32px 0 10px; font-size: 18px; line-height: 1.35 }
p { margin: 0 0 14px; overflow-wrap: anywhere }
main > :last-child { margin-bottom: 0 }
a { color: var(--ink); text-underline-offset: 2px }
code { font: .9em ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; background: var(--code); padding: .15em .35em; border-radius: 5px; overflow-wrap: anywhere }
pre { margin: 0 0 14px; padding: 12px 14px; overflow-x: auto; background: var(--code); border: 1px solid var(--line); border-radius: 12px }
pre code { padding: 0; background: none; overflow-wrap: normal }
.copy { user-select: all }
form { margin: 0 0 14px }
label { display: block; margin: 0 0 4px; font-size: 14.5px; font-weight: 600 }
input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea {
  width: 100%; min-height: 44px; margin: 0 0 14px; padding: 8px 12px; border: 1px solid var(--edge); border-radius: 10px;
  background: var(--back); color: inherit; font: inherit;
}
input + .hint { margin-top: -8px }
button, .button {
  display: inline-flex; align-items: center; justify-content: center; min-height: 44px; padding: 8px 18px; border: 1px solid var(--edge);
  border-radius: 10px; background: var(--back); color: var(--text); font: inherit; font-weight: 600; text-decoration: none; cursor: pointer;
}
button:hover, .button:hover { border-color: var(--ink) }
button:disabled { opacity: .6; cursor: default }
.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent) }
.primary:hover { filter: brightness(1.08) }
.wide { width: 100% }
.danger { color: var(--fault) }
.quiet { min-height: 38px; padding: 4px 14px; font-size: 15px; font-weight: 500 }
.row { display: flex; flex-wrap: wrap; gap: 10px; align-items: center }
.row form { margin: 0 }
.tabs { display: flex; gap: 4px 22px; flex-wrap: wrap; margin: -10px 0 22px; border-bottom: 1px solid var(--line) }
.tabs a { padding: 8px 0 9px; margin-bottom: -1px; color: var(--muted); text-decoration: none; border-bottom: 2px solid transparent }
.tabs a:hover { color: var(--text) }
.tabs a[aria-current] { color: var(--text); font-weight: 600; border-bottom-color: var(--ink) }
.lead { color: var(--muted) }
.list { list-style: none; margin: 0 0 18px; padding: 0; border-top: 1px solid var(--line) }
.list > li { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; padding: 12px 0; border-bottom: 1px solid var(--line) }
.list .what { flex: 1; min-width: 11em; overflow-wrap: anywhere }
.list form { margin: 0 }
.list details[open] { flex-basis: 100% }
.list details form { margin-top: 12px }
summary { padding: 6px 0; color: var(--ink); cursor: pointer; width: fit-content; border-radius: 6px }
.columns { columns: 8em; margin: 0; padding-left: 1.2em }
.columns li { padding: 2px 0 }
.mark { margin-left: 6px; padding: 2px 9px; border-radius: 99px; background: var(--bubble); font-size: 13px; white-space: nowrap }
.hint, .muted { color: var(--muted); font-size: 14.5px }
.fault { color: var(--fault) }
.tip { margin: 0 0 18px; padding: 16px; border: 1px solid var(--line); border-radius: 12px; background: var(--raised) }
.notice { margin: 0 0 18px; padding: 12px 16px; border-radius: 12px; background: var(--warn); color: var(--on-warn) }
.notice a:not(.button) { color: inherit }
.notice p, .tip p { margin: 0 0 10px }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px }
[hidden] { display: none !important }
`
