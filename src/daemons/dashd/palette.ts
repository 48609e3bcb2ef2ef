// Finds pages and folders by a part of their names: a page, whose list the palette of Ctrl-K shows.
import { groupsResource } from '../../resources/groups.ts'
import { type Html, html, linkTarget } from '../../web/html.ts'
import { type DashPage, definePage, folderPath, isPageShown, type PageView } from './page.ts'

const RESULTS_MAX = 12
const WORDS_MAX = 200

export function searchPage(pages: () => readonly DashPage[]): DashPage {
  return definePage({
    path: '/dash/search',
    title: 'Search',
    isShown: () => true,
    show: async (view) => ({ title: 'Search', main: await renderResults(view, pages()) }),
  })
}

async function renderResults(view: PageView, pages: readonly DashPage[]): Promise<Html> {
  const words = (view.query.q ?? '').trim().toLowerCase().slice(0, WORDS_MAX)
  const found = [...findPages(view, pages, words), ...(await findFolders(view, words))].slice(0, RESULTS_MAX)
  if (found.length === 0) return html`<p class="hint">Nothing matches.</p>`
  // The script opens the first result only if it is one of the text that was typed.
  return html`<ul data-query="${words}">${found.map(([href, label]) => html`<li><a href="${linkTarget(href)}">${label}</a></li>`)}</ul>`
}

function findPages(view: PageView, pages: readonly DashPage[], words: string): [href: string, label: string][] {
  return pages
    .filter((page) => page.nav !== undefined && isPageShown(page, view) && page.title.toLowerCase().includes(words))
    .map(({ path, title }) => [path, title])
}

async function findFolders(view: PageView, words: string): Promise<[href: string, label: string][]> {
  if (words === '' || !view.isAdministrator) return []
  const { folders } = await view.call(groupsResource.verbs.activity, { search: words, limit: RESULTS_MAX })
  return folders.map(({ folder }) => [folderPath(folder), `Folder ${folder}`])
}
