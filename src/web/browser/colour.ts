// Applies the colour of an agent or of a site to a chat.
import { readableOn } from '../text/agent-profile.ts'

/** Any CSS colour; others change nothing. */
export function applyColour(node: HTMLElement, colour: string | undefined): void {
  if (!colour || !CSS.supports('color', colour)) return
  node.style.setProperty('--accent', colour)
  node.style.setProperty('--ink', 'var(--text)')
  const context = document.createElement('canvas').getContext('2d')
  if (!context) return
  context.fillStyle = colour
  context.fillRect(0, 0, 1, 1)
  node.style.setProperty('--on-accent', readableOn([...context.getImageData(0, 0, 1, 1).data]))
}
