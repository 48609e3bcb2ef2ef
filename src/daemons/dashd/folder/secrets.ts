// Secrets of a folder: their names. A value can be set and deleted, but is never shown.
import { SecretKey } from '../../../core/values.ts'
import { refuse } from '../../../lib/refusal.ts'
import { secretsResource } from '../../../resources/secrets.ts'
import { buttonLink, section, timeOf } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { requiredField } from '../typed-fields.ts'
import { defineFolderView } from './view.ts'

const secrets = secretsResource.verbs

export const secretsView = defineFolderView({
  name: 'secrets',
  title: 'Secrets',
  actions: {
    set: {
      run: async (view, fields) => {
        const [owner, key] = [requiredField(fields, 'owner'), requiredField(fields, 'key')]
        if (!SecretKey.safeParse(key).success)
          refuse('invalid', 'key must be capital letters, digits and "_", starting with a letter, such as API_KEY')
        await view.call(secrets.create, { scope_kind: 'folder', owner, key, value: fields.get('value') ?? '' })
        return { done: `Secret ${key} is set. New runs of the agent have it.` }
      },
    },
    remove: {
      verb: secrets.delete,
      done: 'Secret deleted.',
      confirm: ({ key = '', owner = '' }) => `Delete the secret ${key} of ${owner}? Its value cannot be restored.`,
    },
  },
  show: async (view, folder) => {
    const owned = { scope_kind: 'folder', owner: folder } as const
    const { secrets: rows, next } = await view.call(secrets.list_of, {
      ...owned,
      limit: view.limit,
      after: view.query.after,
    })
    const may = await view.mayEach(
      secrets.delete,
      rows.map(({ key }) => ({ ...owned, key })),
    )
    const mayDelete = new Map(rows.map(({ key }, at) => [key, may[at]]))
    const maySet = await view.may(secrets.create, { ...owned, key: '', value: '' })
    const form = view.form({
      action: 'set',
      fixed: { owner: folder },
      fields: [
        {
          name: 'key',
          label: 'Name',
          isRequired: true,
          placeholder: 'API_TOKEN',
          hint: 'An environment variable of the agent. A secret with this name is replaced.',
        },
        {
          name: 'value',
          label: 'Value',
          kind: 'password',
          isRequired: true,
          hint: 'Stored encrypted, and never shown again.',
        },
      ],
      submit: 'Set secret',
    })
    return {
      table: defineTable({
        id: 'secrets',
        caption: `Secrets of ${folder}`,
        rows,
        rowId: ({ key }) => key,
        columns: [
          { label: 'Name', cell: ({ key }) => html`<code>${key}</code>`, value: ({ key }) => key },
          {
            label: 'Set',
            cell: ({ created_at }) => timeOf(created_at, view.nowMs),
            value: ({ created_at }) => created_at,
          },
        ],
        rowActions: ({ key }) =>
          mayDelete.get(key)
            ? view.button({
                action: 'remove',
                fixed: { ...owned, key },
                text: 'Delete',
                label: `Delete ${key}`,
                isDangerous: true,
              })
            : EMPTY_HTML,
        empty: {
          text: `${folder} has no secrets. A secret is an environment variable of its agent.`,
          next: maySet ? html`<p>${buttonLink('#new-secret', 'Set a secret')}</p>` : undefined,
          command: view.inTerminal(`svc secret ${view.host.instance} set ${folder} API_TOKEN`),
        },
        next,
      }),
      bottom: maySet ? section('new-secret', 'Set a secret', form) : EMPTY_HTML,
      isLive: true,
    }
  },
})
