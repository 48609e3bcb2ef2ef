// The style sheet of the pages for people. The colours are those of the chat.
import { DARK_COLORS, LIGHT_COLORS } from '../chat/style.ts'

export const ACCOUNT_STYLE = `
:root { ${LIGHT_COLORS} --ink: var(--accent); color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { ${DARK_COLORS} } }
*, *::before, *::after { box-sizing: border-box }
body {
  margin: 0; min-height: 100vh; background: var(--raised); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Ubuntu, Cantarell, 'DejaVu Sans', sans-serif;
}
header { display: flex; justify-content: space-between; align-items: center; gap: 16px; padding: 14px 20px }
header a { color: var(--muted); text-decoration: none; overflow-wrap: anywhere }
header a:hover { color: var(--text); text-decoration: underline }
.brand { font-weight: 700; letter-spacing: .02em }
main {
  max-width: 560px; margin: 4vh auto 40px; padding: 28px; background: var(--back); border: 1px solid var(--line);
  border-radius: 18px;
}
@media (max-width: 600px) { main { margin: 0 12px 24px; padding: 20px } }
h1 { margin: 0 0 12px; font-size: 24px; line-height: 1.25 }
h2 { margin: 28px 0 8px; font-size: 17px }
p { margin: 0 0 14px }
a { color: var(--ink); text-underline-offset: 2px }
code { font: .9em ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; background: var(--code); padding: .15em .35em; border-radius: 5px; overflow-wrap: anywhere }
pre { margin: 0 0 14px; padding: 12px 14px; overflow-x: auto; background: var(--code); border-radius: 12px }
pre code { padding: 0; background: none }
.copy { user-select: all }
form { margin: 0 0 12px }
label { display: block; margin: 0 0 4px; font-size: 14.5px; font-weight: 600 }
input:not([type=hidden]), select {
  width: 100%; min-height: 44px; margin: 0 0 14px; padding: 8px 12px; border: 1px solid var(--line); border-radius: 10px;
  background: var(--back); color: inherit; font: inherit;
}
button, .button {
  display: inline-flex; align-items: center; justify-content: center; min-height: 44px; padding: 8px 18px; border: 1px solid var(--line);
  border-radius: 10px; background: var(--back); color: var(--text); font: inherit; font-weight: 600; text-decoration: none; cursor: pointer;
}
button:hover, .button:hover { border-color: var(--ink) }
.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent) }
.wide { width: 100% }
.danger { color: var(--fault) }
.quiet { min-height: 36px; padding: 4px 12px; font-size: 14.5px; font-weight: 500 }
.row { display: flex; flex-wrap: wrap; gap: 10px; align-items: center }
.row form { margin: 0 }
.list { list-style: none; margin: 0 0 16px; padding: 0; border-top: 1px solid var(--line) }
.list li { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center; padding: 10px 0; border-bottom: 1px solid var(--line) }
.list .what { flex: 1; min-width: 12em; overflow-wrap: anywhere }
.list form { margin: 0 }
.hint, .muted { color: var(--muted); font-size: 14.5px }
.fault { color: var(--fault) }
.notice { padding: 10px 14px; border-radius: 12px; background: var(--warn); color: var(--on-warn) }
:focus-visible { outline: 2px solid var(--ink); outline-offset: 2px }
[hidden] { display: none !important }
`
