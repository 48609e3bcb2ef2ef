// Folders below this one.
import { groupsResource } from '../../../resources/groups.ts'
import { section } from '../../../web/dash/parts.ts'
import { EMPTY_HTML } from '../../../web/html.ts'
import { folderTable } from '../folder-table.ts'
import { folderPath } from '../page.ts'
import { productField } from '../pages/folders.ts'
import { defineFolderView } from './view.ts'

const groups = groupsResource.verbs

export const childrenView = defineFolderView({
  name: 'children',
  title: 'Child folders',
  actions: {
    create_child: {
      run: async (view, fields) => {
        const [leaf, name, product] = ['leaf', 'name', 'product'].map((field) => fields.get(field)?.trim() ?? '')
        const folder = `${view.params.folder}/${leaf}`
        await view.call(groups.create, { folder, ...(name ? { name } : {}), ...(product ? { product } : {}) })
        return { to: folderPath(folder), done: `Folder ${folder} created.` }
      },
    },
  },
  show: async (view, folder) => {
    const { limit, nowMs, query } = view
    const { folders, next } = await view.call(groups.activity, { parent: folder, limit, after: query.after })
    const mayCreate = await view.may(groups.create, { folder: `${folder}/new`, product: 'assistant' })
    const fields = [
      {
        name: 'leaf',
        inputNames: ['folder'],
        label: 'Folder',
        isRequired: true,
        maxLength: 128,
        hint: `Its name below ${folder}/.`,
      },
      { name: 'name', label: 'Name', maxLength: 128, hint: 'Shown to people; by default the same.' },
      await productField(),
    ]
    return {
      table: folderTable({
        caption: `Folders below ${folder}`,
        folders,
        next,
        nowMs,
        empty: { text: `There are no folders below ${folder}.` },
      }),
      bottom: mayCreate
        ? section(
            'new-folder',
            'New child folder',
            view.form({ action: 'create_child', fields, submit: 'Create folder' }),
          )
        : EMPTY_HTML,
      isLive: true,
    }
  },
})
