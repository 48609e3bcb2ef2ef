// Removal of a folder, with a preview of what goes and what stays.

import { refuse } from '../../../lib/refusal.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { notice, section } from '../../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { defineFolderView } from './view.ts'

const groups = groupsResource.verbs
const NAMES_SHOWN = 20

export const removeView = defineFolderView({
  name: 'remove',
  title: 'Remove',
  actions: {
    remove: {
      run: async (view, fields) => {
        const folder = view.params.folder ?? ''
        if (fields.get('typed')?.trim() !== folder)
          refuse('invalid', `type ${folder} to remove it`, 'nothing was removed')
        await view.call(groups.remove, { folder, purge: fields.get('purge') === 'true' })
        return { to: '/dash/folders', done: `Folder ${folder} removed. Its files stay on the disk.` }
      },
    },
  },
  show: async (view, folder) => {
    const { ends, stays } = await view.call(groups.removal, { folder })
    if (!(await view.may(groups.remove, { folder, purge: false })) || folder === 'main')
      return { main: notice('warn', `${folder} cannot be removed.`) }
    const fields = [
      {
        name: 'purge',
        label: 'Also remove what would stay',
        kind: 'checkbox',
        hint: 'Its routes, tasks, secrets, rules and grants. Files are never removed.',
      },
      { name: 'typed', label: `Type ${folder} to confirm`, isRequired: true, maxLength: 255 },
    ] as const
    const form = view.form({ action: 'remove', fields, submit: 'Remove folder', isDangerous: true })
    const command = view.inTerminal(`svc group ${view.host.instance} rm ${folder}`)
    return {
      main: html`${references('ends', 'Removed with the folder', ends, 'Only the folder itself.')}${references('stays', 'Stays without a folder', stays, 'Nothing.')}`,
      bottom: section('remove', 'Remove this folder', html`${form}${command}`),
    }
  },
})

interface References {
  readonly kind: string
  readonly names: readonly string[]
}

function references(id: string, title: string, rows: readonly References[], none: string): Html {
  const items = rows.map(({ kind, names }) => {
    const more = names.length > NAMES_SHOWN ? html` and ${names.length - NAMES_SHOWN} more` : EMPTY_HTML
    return html`<li>${kind}: ${names.slice(0, NAMES_SHOWN).join(', ')}${more}</li>`
  })
  return section(id, title, rows.length === 0 ? html`<p class="muted">${none}</p>` : html`<ul>${items}</ul>`)
}
