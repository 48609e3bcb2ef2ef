// Finds pages, folders and people by a part of their names, and messages and turns by their ids: a page, whose list the palette
// of Ctrl-K shows.
import { accountsResource } from '../../resources/accounts.ts'
import { groupsResource } from '../../resources/groups.ts'
import { inboxResource } from '../../resources/inbox.ts'
import { turnsResource } from '../../resources/turns.ts'
import { renderFilters, withQuery } from '../../web/dash/filter-bar.ts'
import { visibleText } from '../../web/dash/parts.ts'
import { type Html, html, linkTarget } from '../../web/html.ts'
import { messagePath } from './message-parts.ts'
import { type DashPage, definePage, folderPath, isPageShown, type PageView } from './page.ts'
import { personPath } from './pages/people.ts'
import { turnPath } from './turn-parts.ts'

const RESULTS_MAX = 12
const WORDS_MAX = 200

export function searchPage(pages: () => readonly DashPage[]): DashPage {
  return definePage({
    path: '/dash/search',
    title: 'Search',
    isShown: () => true,
    show: async (view) => ({
      title: 'Search',
      top: renderFilters({
        ...{ id: 'search', path: view.path, query: view.query, submit: 'Search' },
        fields: [{ name: 'q', label: 'Page, folder, person or id', kind: 'search', maxLength: WORDS_MAX }],
      }),
      main: await renderResults(view, pages()),
    }),
  })
}

type Found = readonly [href: string, label: string]

async function renderResults(view: PageView, pages: readonly DashPage[]): Promise<Html> {
  const typed = (view.query.q ?? '').trim().slice(0, WORDS_MAX)
  const words = typed.toLowerCase()
  const named: Found[] = [...findPages(view, pages, words), ...(await findFolders(view, words))]
  const found = [...(await findIds(view, words)), ...named, ...(await findPeople(view, typed))].slice(0, RESULTS_MAX)
  const last: Found[] =
    words === '' || !view.isAdministrator
      ? []
      : [[withQuery('/dash/messages', { q: typed }), `Messages with ${visibleText(typed)}`]]
  if (found.length + last.length === 0) return html`<p class="hint">Nothing matches.</p>`
  // The script opens the first result only if it is one of the text that was typed.
  return html`<ul data-query="${words}">${[...found, ...last].map(([href, label]) => html`<li><a href="${linkTarget(href)}">${label}</a></li>`)}</ul>`
}

const PEOPLE_MAX = 5

async function findPeople(view: PageView, words: string): Promise<Found[]> {
  if (words === '' || !view.isOperator) return []
  const { people } = await view.call(accountsResource.verbs.list, { search: words, limit: PEOPLE_MAX })
  return people.map(({ sub, name }) => [
    personPath(sub),
    `Person ${visibleText(name === undefined ? sub : `${name} (${sub})`)}`,
  ])
}

/** A turn has the id of its first message. */
const ID_START = /^[0-9a-f]{8}(?:-[0-9a-f-]*)?$/
const IDS_MAX = 3

/** Only operators may look up a part of an id. */
async function findIds(view: PageView, words: string): Promise<Found[]> {
  if (!ID_START.test(words) || !view.isOperator) return []
  const request = { prefix: words, limit: IDS_MAX }
  const messages = await view.call(inboxResource.verbs.ids, request)
  const turns = await view.call(turnsResource.verbs.ids, request)
  return [
    ...messages.ids.map((id): Found => [messagePath(id), `Message ${id}`]),
    ...turns.ids.map((id): Found => [turnPath(id), `Turn ${id}`]),
  ]
}

function findPages(view: PageView, pages: readonly DashPage[], words: string): Found[] {
  return pages
    .filter((page) => page.nav !== undefined && isPageShown(page, view) && page.title.toLowerCase().includes(words))
    .map(({ path, title }) => [path, title])
}

async function findFolders(view: PageView, words: string): Promise<Found[]> {
  if (words === '' || !view.isAdministrator) return []
  const { folders } = await view.call(groupsResource.verbs.activity, { search: words, limit: RESULTS_MAX })
  return folders.map(({ folder }) => [folderPath(folder), `Folder ${folder}`])
}
