// The script of the dashboard: times, copy buttons, tables that scroll, the palette, the theme, fields for files, forms that
// are sent once, text that was not saved, and whether the page is live. Everything else works without it.

import { setUpLive } from './dash-live.ts'
import { setUpTimes, showTimes } from './dash-times.ts'

const root = document.documentElement

function addCopyButtons(within: ParentNode): void {
  for (const place of within.querySelectorAll<HTMLElement>('[data-copy]:not(:has(button))')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'quiet'
    button.textContent = 'Copy'
    button.addEventListener('click', () => {
      void navigator.clipboard.writeText(place.dataset.copy ?? '').then(() => {
        button.textContent = 'Copied'
      })
    })
    place.append(button)
  }
}

/** A table that is wider than the page is scrolled by the keyboard, too. */
function setUpScrolling(): void {
  for (const region of document.querySelectorAll<HTMLElement>('.scroll')) {
    const isScrollable = region.scrollWidth > region.clientWidth
    if (isScrollable) {
      region.tabIndex = 0
      region.setAttribute('role', 'region')
      region.setAttribute('aria-label', region.querySelector('caption')?.textContent ?? 'Table')
    } else for (const name of ['tabindex', 'role', 'aria-label']) region.removeAttribute(name)
  }
}

function enhance(within: ParentNode): void {
  showTimes(within)
  addCopyButtons(within)
  addWrapButton()
  setUpScrolling()
}

/** The server reads the cookie, so that the next page has the theme from the start. */
function setUpTheme(): void {
  const button = document.querySelector<HTMLButtonElement>('#theme')
  if (!button) return
  button.hidden = false
  button.addEventListener('click', () => {
    const isDark = root.dataset.theme
      ? root.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches
    root.dataset.theme = isDark ? 'light' : 'dark'
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not in every browser
    document.cookie = `svc_theme=${root.dataset.theme}; Path=/dash; Max-Age=31536000; SameSite=Lax`
  })
}

/** Whether long lines of logs are broken. The server reads the cookie, as for the theme. */
function addWrapButton(): void {
  const log = document.querySelector('#live pre.log')
  if (!log || document.querySelector('#wrap')) return
  const button = document.createElement('button')
  button.id = 'wrap'
  button.type = 'button'
  button.className = 'quiet'
  button.textContent = 'Wrap lines'
  const show = (): void => button.setAttribute('aria-pressed', String(root.dataset.wrap !== 'off'))
  button.addEventListener('click', () => {
    root.dataset.wrap = root.dataset.wrap === 'off' ? 'on' : 'off'
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not in every browser
    document.cookie = `svc_wrap=${root.dataset.wrap}; Path=/dash; Max-Age=31536000; SameSite=Lax`
    show()
  })
  show()
  document.querySelector('#log-search')?.append(button)
}

function setUpPalette(): void {
  const dialog = document.querySelector<HTMLDialogElement>('#palette')
  const opener = document.querySelector<HTMLAnchorElement>('#palette-open')
  const query = document.querySelector<HTMLInputElement>('#palette-query')
  const results = document.querySelector('#palette-results')
  if (!dialog || !opener || !query || !results) return
  const open = (): void => {
    if (!dialog.open) dialog.showModal()
    query.select()
    query.dispatchEvent(new Event('input', { bubbles: true }))
  }
  opener.addEventListener('click', (event) => {
    event.preventDefault()
    open()
  })
  document.addEventListener('keydown', (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
      event.preventDefault()
      open()
    }
  })
  const isCurrent = (): boolean => results.querySelector('ul')?.dataset.query === query.value.trim().toLowerCase()
  dialog.addEventListener('keydown', (event) => {
    const links = [...results.querySelectorAll('a')]
    const at = links.findIndex((item) => item.matches(':focus'))
    if (event.key === 'ArrowDown') links[Math.min(at + 1, links.length - 1)]?.focus()
    // A search field would first clear its text.
    else if (event.key === 'Escape') dialog.close()
    else if (event.key === 'ArrowUp') (at > 0 ? links[at - 1] : query)?.focus()
    else if (event.key === 'Enter' && document.activeElement === query && isCurrent()) links[0]?.click()
    else return
    event.preventDefault()
  })
}

/** Fields that are not filled in stay out of the URL. */
function setUpFilters(): void {
  document.addEventListener('formdata', ({ target, formData }) => {
    if (!(target instanceof HTMLFormElement) || target.method !== 'get') return
    for (const [name, value] of [...formData]) if (value === '') formData.delete(name)
  })
}

/** The menu is open without script, and closed on a narrow screen with it. */
function setUpMenu(): void {
  const menu = document.querySelector<HTMLDetailsElement>('#menu')
  if (menu && matchMedia('(max-width: 860px)').matches) menu.open = false
}

/** Fields for a file, whose text goes into another field: a form without script cannot read one. */
function setUpFileFields(): void {
  for (const input of document.querySelectorAll<HTMLInputElement>('input[data-fills]')) {
    const target = document.querySelector<HTMLTextAreaElement>(`#${input.dataset.fills}`)
    const field = input.closest<HTMLElement>('.field')
    if (!target || !field) continue
    field.hidden = false
    input.addEventListener('change', () => {
      void input.files?.[0]?.text().then((text) => {
        target.value = text
      })
    })
  }
}

const RESEND_MS = 3000

/** A double click would show that the form was sent before, in place of the result of the first click. */
function setUpForms(): void {
  const sent = new WeakMap<EventTarget, number>()
  document.addEventListener('submit', (event) => {
    const { target: form, timeStamp } = event
    if (!(form instanceof HTMLFormElement) || form.method !== 'post') return
    if (timeStamp - (sent.get(form) ?? -RESEND_MS) < RESEND_MS) event.preventDefault()
    else sent.set(form, timeStamp)
  })
}

/** Asks before the text of a file that was not saved is left. */
function setUpEditors(): void {
  for (const text of document.querySelectorAll<HTMLTextAreaElement>('form.editor textarea')) {
    let isSent = false
    text.form?.addEventListener('submit', () => {
      isSent = true
    })
    const isUnsaved = (): boolean => text.value !== text.defaultValue || text.ariaInvalid === 'true'
    window.addEventListener('beforeunload', (event) => {
      if (!isSent && isUnsaved()) event.preventDefault()
    })
  }
}

enhance(document)
setUpTimes()
setUpForms()
setUpEditors()
setUpTheme()
setUpPalette()
setUpLive()
setUpFilters()
setUpMenu()
setUpFileFields()
document.addEventListener('htmx:after:swap', () => enhance(document))
window.addEventListener('resize', setUpScrolling)
