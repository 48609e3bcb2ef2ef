// /dash/keys: the keys that sign bearers, and their replacement.
import { signingKeysResource } from '../../../resources/signing-keys.ts'
import { badge, section, timeOf } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, html } from '../../../web/html.ts'
import { definePage } from '../page.ts'

const { list, rotate } = signingKeysResource.verbs

type SigningKey = Awaited<ReturnType<typeof list.run>>['signing_keys'][number]

export const signingKeysPage = definePage({
  path: '/dash/keys',
  title: 'Signing keys',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  actions: {
    rotate: {
      verb: rotate,
      confirm: ({ now }) =>
        now === 'true'
          ? 'End all earlier keys now? Every bearer that was issued before stops working.'
          : 'Create a new signing key? Bearers of the earlier ones stay valid until they expire.',
      done: 'New signing key in use.',
    },
  },
  show: async (view) => {
    const { signing_keys, next } = await view.call(list, { limit: view.limit, after: view.query.after })
    const form = (await view.may(rotate, { now: false }))
      ? section(
          'rotate-keys',
          'Replace the key',
          view.form({
            action: 'rotate',
            submit: 'Create a new key',
            fields: [
              {
                name: 'now',
                label: 'End all earlier keys at once',
                kind: 'checkbox',
                hint: 'After a leak. Every bearer that was issued before stops working.',
              },
            ],
          }),
        )
      : EMPTY_HTML
    return {
      title: 'Signing keys',
      table: defineTable<SigningKey>({
        id: 'keys',
        caption: 'Signing keys',
        rows: signing_keys,
        next,
        rowId: ({ kid }) => kid,
        columns: [
          { label: 'Key', cell: ({ kid }) => html`<code>${kid}</code>`, value: ({ kid }) => kid },
          {
            label: 'State',
            cell: ({ status }) => badge(status, status === 'active' ? 'ok' : 'idle'),
            value: ({ status }) => status,
          },
          {
            label: 'Created',
            cell: ({ created_at }) => timeOf(created_at, view.nowMs),
            value: ({ created_at }) => created_at,
          },
          {
            label: 'Verifies until',
            cell: ({ serves_until }) => (serves_until === undefined ? '' : timeOf(serves_until, view.nowMs)),
            value: ({ serves_until }) => serves_until,
          },
        ],
        empty: {
          text: 'There is no key yet. The first bearer creates one.',
          command: view.inTerminal(`svc keys ${view.host.instance} list`),
        },
      }),
      bottom: html`${form}${view.inTerminal(`svc keys ${view.host.instance} rotate`)}`,
    }
  },
})
