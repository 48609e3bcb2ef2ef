// Design tokens: the colours and the font of the chat, of the pages for people and of the dashboard.

export const LIGHT_BACK = '#ffffff'
export const DARK_BACK = '#15171d'

export const LIGHT_COLORS = `
  --back: ${LIGHT_BACK}; --raised: #f6f7fa; --text: #1b1d26; --muted: #5f6778; --line: #e1e4eb; --bubble: #e9ebfb;
  --code: #f4f5f9; --accent: #4653cf; --on-accent: #fff; --fault: #b3261e; --warn: #fff6e0; --on-warn: #5a4300;`
export const DARK_COLORS = `
  --back: ${DARK_BACK}; --raised: #1d2028; --text: #e7e9f0; --muted: #9ba3b6; --line: #2f3440; --bubble: #2b3052;
  --code: #0f1116; --accent: #98a1ff; --on-accent: #12142e; --fault: #ff9a90; --warn: #3a3014; --on-warn: #ffe3a1;`

/** Tokens of code, on the background `--code`. */
export const LIGHT_TOKENS = `
  --token-keyword: #8b2bb0; --token-string: #1a6b34; --token-class: #8f4a00; --token-property: #1f5fb0;`
export const DARK_TOKENS = `
  --token-keyword: #d2a8ff; --token-string: #8fd9a0; --token-class: #ffb77a; --token-property: #8fc1ff;`

/** Borders of fields and buttons, and the colours of states. */
export const LIGHT_STATES = `
  --edge: #858da0; --ok: #1d6b3a; --ok-back: #e3f4e8; --fault-back: #fdeceb; --busy: #2a4fa8; --busy-back: #e6edfc; --idle-back: #eceef3;`
export const DARK_STATES = `
  --edge: #70788b; --ok: #86d9a2; --ok-back: #16301f; --fault-back: #3a1d1b; --busy: #a9c1ff; --busy-back: #1f2a47; --idle-back: #272b35;`

export const FONT = `system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Ubuntu, Cantarell, 'DejaVu Sans', sans-serif`
export const CODE_FONT = `ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace`
