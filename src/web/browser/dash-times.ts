// Times on pages of the dashboard: ages that stay right while a page is open, or exact times, in the reader's zone or in UTC for
// screenshots. The choice is kept in a cookie, like the theme.
import { relativeTime } from '../text/ages.ts'

const TIMES_COOKIE = 'svc_times'
const AGES_MS = 30_000

/** The clock of the server, which wrote the ages. */
const clockLead = Date.now() - Number(document.documentElement.dataset.now ?? Date.now())

function chosenTimes(): string {
  return /(?:^|; )svc_times=(\w+)/.exec(document.cookie)?.[1] ?? 'age'
}

export function showTimes(within: ParentNode): void {
  const chosen = chosenTimes()
  for (const time of within.querySelectorAll('time[datetime]')) {
    const text = time.getAttribute('datetime') ?? ''
    const at = new Date(text)
    if (Number.isNaN(at.getTime())) continue
    const own = at.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })
    const utc = `${text.slice(0, 19).replace('T', ' ')} UTC`
    const age = relativeTime(text, Date.now() - clockLead)
    const shown =
      chosen === 'utc'
        ? utc
        : chosen === 'mine'
          ? at.toLocaleString(undefined, { dateStyle: 'short', timeStyle: 'medium' })
          : age
    if (time.textContent !== shown) time.textContent = shown
    time.setAttribute('title', chosen === 'age' ? `${own} (${utc})` : `${age} (${chosen === 'utc' ? own : utc})`)
  }
}

export function setUpTimes(): void {
  const choice = document.querySelector<HTMLSelectElement>('#times')
  if (choice) {
    choice.hidden = false
    choice.value = chosenTimes()
    choice.addEventListener('change', () => {
      // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API is not in every browser
      document.cookie = `${TIMES_COOKIE}=${choice.value}; Path=/dash; Max-Age=31536000; SameSite=Lax`
      showTimes(document)
    })
  }
  setInterval(() => showTimes(document), AGES_MS)
}
