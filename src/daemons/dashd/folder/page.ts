// The page of one folder. Its views are the tabs.
import { refuse } from '../../../lib/refusal.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { renderTabs } from '../../../web/dash/parts.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { definePage, folderPath, type PageView } from '../page.ts'
import { folderViews } from './index.ts'
import type { FolderView } from './view.ts'

export const folderPage = definePage({
  path: '/dash/folders/:folder{.+}',
  title: 'Folder',
  actionsOf: (view) => currentView(view).actions ?? {},
  beforeAction: mustFindFolder,
  show: async (view) => {
    const folder = view.params.folder ?? ''
    await mustFindFolder(view)
    const current = currentView(view)
    const content = await current.show(view, folder)
    const tabs = folderViews.map((one) => ({
      href: folderPath(folder, one === folderViews[0] ? undefined : one.name),
      label: one.title,
      isCurrent: one === current,
    }))
    return { ...content, title: folder, top: html`${renderTabs('Folder', tabs)}${content.top ?? EMPTY_HTML}` }
  },
})

/** Refuses people who do not administer the folder, too. */
async function mustFindFolder(view: PageView): Promise<void> {
  await view.call(groupsResource.verbs.show, { folder: view.params.folder ?? '' })
}

function currentView({ query }: PageView): FolderView {
  const found = query.view === undefined ? folderViews[0] : folderViews.find(({ name }) => name === query.view)
  return found ?? refuse('not_found', 'there is nothing here')
}
