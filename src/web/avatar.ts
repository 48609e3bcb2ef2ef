// The picture of an agent, or its initials on its colour, in pages of the server.
import { EMPTY_HTML, type Html, html } from './html.ts'
import { type AgentProfile, initialsOf, partsOfColour, readableOn } from './text/agent-profile.ts'

export const AVATAR_STYLE = `
.avatar { position: relative; display: inline-block; flex: none; width: 34px; height: 34px; border-radius: 11px; overflow: hidden }
.avatar > * { position: absolute; inset: 0; width: 100%; height: 100% }
.avatar svg { stroke: none }
.avatar text { font: 650 15px system-ui, sans-serif; text-anchor: middle }
.avatar img { object-fit: cover }
`

/** The picture hides the initials once it is loaded. */
export function avatarHtml({ name, tint, picture }: Pick<AgentProfile, 'name' | 'tint' | 'picture'>): Html {
  const image = picture === undefined ? EMPTY_HTML : html`<img src="${picture}" alt="">`
  // The policies of the pages allow no style attributes.
  return html`<span class="avatar" aria-hidden="true"><svg viewBox="0 0 34 34"><rect width="34" height="34" fill="${tint}"/><text x="17" y="22.5" fill="${readableOn(partsOfColour(tint))}">${initialsOf(name)}</text></svg>${image}</span>`
}
