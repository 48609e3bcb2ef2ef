// The theme of the chat page: the system's, light or dark. A script in the head applies the kept choice before the page is drawn.
import { iconNode } from './icons.ts'
import { iconButton } from './nodes.ts'
import { readStored, writeStored } from './stored.ts'
import { uiText } from './texts.ts'

const THEMES = ['system', 'light', 'dark'] as const
const LABELS = { system: 'themeSystem', light: 'themeLight', dark: 'themeDark' } as const
const THEME_KEY = 'svc-theme'

/** A button that switches to the next theme. */
export function themeButton(): HTMLButtonElement {
  const stored = readStored('localStorage', THEME_KEY)
  let theme = THEMES.find((one) => one === stored) ?? 'system'
  const button = iconButton('', iconNode(theme))
  const show = (): void => {
    applyTheme(theme)
    const label = uiText(LABELS[theme])
    button.setAttribute('aria-label', label)
    button.title = label
    button.replaceChildren(iconNode(theme))
  }
  button.addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'system'
    writeStored('localStorage', THEME_KEY, theme === 'system' ? undefined : theme)
    show()
  })
  show()
  return button
}

function applyTheme(theme: (typeof THEMES)[number]): void {
  const { dataset } = document.documentElement
  if (theme === 'system') delete dataset.theme
  else dataset.theme = theme
  // Bars of the browser around the page.
  for (const meta of document.querySelectorAll<HTMLMetaElement>('meta[name=theme-color]')) {
    const { light = '', dark = '', scheme } = meta.dataset
    meta.content = (theme === 'system' ? scheme : theme) === 'dark' ? dark : light
  }
}
