// Finds pages and folders by a part of their names: the palette of Ctrl-K, and a page for browsers without script.
import type { Context, Hono } from 'hono'
import { groupsResource } from '../../resources/groups.ts'
import { type Html, html, linkTarget } from '../../web/html.ts'
import { redirectTo } from '../http/page-response.ts'
import { findSignedIn, signInPath } from '../http/signed-in.ts'
import { type DashPage, definePage, folderPath, isPageShown, type PageView } from './page.ts'
import type { PagesContext } from './page-requests.ts'
import { createView } from './view.ts'

const RESULTS_MAX = 12
const WORDS_MAX = 200

export function mountSearch(app: Hono, { daemon, pages }: Pick<PagesContext, 'daemon' | 'pages'>): void {
  app.use('/dash/search', async (c: Context, next) => {
    if (!c.req.header('HX-Request')) return next()
    const person = await findSignedIn(daemon.host, c)
    if (!person) return redirectTo(signInPath(c))
    const view = await createView({ daemon, c, person })
    return c.html((await renderResults(view, pages)).toString())
  })
}

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
  return html`<ul>${found.map(([href, label]) => html`<li><a href="${linkTarget(href)}">${label}</a></li>`)}</ul>`
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
