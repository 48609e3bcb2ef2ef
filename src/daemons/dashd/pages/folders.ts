// Folders: everything a person administers, as a tree, and the form for a new one.
import { bundledProducts, listProducts } from '../../../core/groups/products.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { link, section } from '../../../web/dash/parts.ts'
import { EMPTY_HTML } from '../../../web/html.ts'
import { folderTable } from '../folder-table.ts'
import { definePage, folderPath, type PageView } from '../page.ts'

const groups = groupsResource.verbs

export const foldersPage = definePage({
  path: '/dash/folders',
  title: 'Folders',
  nav: 'work',
  actions: {
    create: {
      verb: groups.create,
      done: (_: unknown, { folder }: { folder: string }) => `Folder ${folder} created.`,
      to: (_: unknown, { folder }: { folder: string }) => folderPath(folder),
    },
  },
  show: async (view) => {
    const { nowMs, limit, query } = view
    const { search = '', after } = query
    const { folders, next } = await view.call(groups.activity, { limit, after, ...(search === '' ? {} : { search }) })
    const parent = await parentOfNew(view, folders[0]?.folder)
    const filters = renderFilters({
      id: 'folder-filter',
      path: view.path,
      fields: [{ name: 'search', label: 'Search', kind: 'search', placeholder: 'folder or name' }],
      query,
    })
    const form = parent === undefined ? EMPTY_HTML : await createForm(view, parent)
    return {
      title: 'Folders',
      top: filters,
      table: folderTable({
        caption: 'Folders that you administer',
        folders,
        next,
        nowMs,
        empty: {
          ...(search === ''
            ? {
                text: 'There are no folders yet.',
                next: parent === undefined ? EMPTY_HTML : link('#new-folder', 'Create one'),
              }
            : { text: 'No folder matches.', next: link(view.path, 'All folders') }),
          command: view.inTerminal(`svc group ${view.host.instance} list`),
        },
      }),
      bottom: form,
      isLive: true,
    }
  },
})

/** What a new folder's name starts with; undefined if the person may create none. */
async function parentOfNew(view: PageView, first: string | undefined): Promise<string | undefined> {
  if (view.isOperator) return ''
  if (first === undefined) return undefined
  const folder = `${first}/new`
  return (await view.may(groups.create, { folder, product: 'assistant' })) ? `${first}/` : undefined
}

async function createForm(view: PageView, parent: string) {
  const fields: readonly FormField[] = [
    {
      name: 'folder',
      label: 'Folder',
      isRequired: true,
      maxLength: 255,
      value: parent,
      placeholder: 'team/sales',
      hint: 'Letters, digits, "-", "_" and "."; a slash puts it below another folder.',
    },
    { name: 'name', label: 'Name', maxLength: 128, hint: 'Shown to people; by default the last part of the folder.' },
    await productField(),
  ]
  return section('new-folder', 'New folder', view.form({ action: 'create', fields, submit: 'Create folder' }))
}

export async function productField(): Promise<FormField> {
  const products = await listProducts(bundledProducts)
  return {
    name: 'product',
    label: 'Product',
    kind: 'select',
    options: products.map(({ name, tagline }) => [name, `${name}: ${tagline}`] as const),
    hint: 'Persona, facts and skills to start with.',
  }
}
