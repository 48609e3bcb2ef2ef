// A view of the folder page, such as its links.
import type { PageAction, PageContent, PageView } from '../page.ts'

export interface FolderView {
  /** In the URL: ?view=<name>. */
  readonly name: string
  readonly title: string
  readonly actions?: Readonly<Record<string, PageAction>>
  /** `title` of the content is replaced by the name of the folder. */
  show(view: PageView, folder: string): Promise<Omit<PageContent, 'title'>>
}

export function defineFolderView(view: FolderView): FolderView {
  return view
}
