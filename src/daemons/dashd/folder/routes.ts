// Routes to a folder, in the order in which they are tried.
import { Folder } from '../../../core/values.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { routesResource } from '../../../resources/routes.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { badge, buttonLink, section } from '../../../web/dash/parts.ts'
import { type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { PageView } from '../page.ts'
import { numberField, optionalField, requiredField } from '../typed-fields.ts'
import { defineFolderView } from './view.ts'

const routes = routesResource.verbs
type RouteRow = Awaited<ReturnType<typeof routes.of_folder.run>>['routes'][number]

export const routesView = defineFolderView({
  name: 'routes',
  title: 'Routes',
  actions: {
    move: { verb: routes.move, done: 'Route moved.' },
    add: {
      run: async (view, fields) => {
        const [match, target] = [optionalField(fields, 'match'), requiredField(fields, 'target')]
        await mustExist(view, target)
        await view.call(routes.create, { match, target, seq: numberField(fields, 'seq') })
        return { done: 'Route added.' }
      },
    },
    change: {
      run: async (view, fields) => {
        const id = numberField(fields, 'id') ?? 0
        const { match = '', target } = {
          match: optionalField(fields, 'match'),
          target: requiredField(fields, 'target'),
        }
        const seq = numberField(fields, 'seq')
        await mustExist(view, target)
        await view.call(routes.update, { id, match, target, ...(seq === undefined ? {} : { seq }) })
        return { to: view.url({ route: undefined }), done: 'Route changed.' }
      },
    },
    remove: {
      verb: routes.delete,
      done: 'Route deleted.',
      confirm: ({ id = '' }) => `Delete route ${id}? Its messages go to the next route that matches, or to no folder.`,
    },
  },
  show: async (view, folder) => {
    const { routes: rows } = await view.call(routes.of_folder, { folder })
    const mayChange = await view.mayEach(
      routes.update,
      rows.map(({ id }) => ({ id })),
    )
    const edited = rows.find(({ id }) => String(id) === view.query.route)
    const mayAdd = await view.may(routes.create, { seq: 0, match: '', target: folder })
    const addForm = view.form({ action: 'add', fields: routeFields({ target: folder }), submit: 'Add route' })
    return {
      main: html`<p class="hint">The first route that matches a message decides which folder gets it. Messages of links go to their folder without a route.</p>`,
      table: defineTable(routeTable(view, folder, rows, { mayChange, mayAdd })),
      bottom: html`${edited ? changeForm(view, edited) : EMPTY_HTML}${mayAdd ? section('new-route', 'Add a route', addForm) : EMPTY_HTML}`,
      isLive: true,
    }
  },
})

/** Messages to a folder that does not exist are lost. People who may not see the folder are refused by the verb. */
async function mustExist(view: PageView, target: string): Promise<void> {
  const folder = Folder.safeParse(target.replace(/^folder:/, '').replace(/#.*$/s, ''))
  if (folder.success && (await view.may(groupsResource.verbs.show, { folder: folder.data })))
    await view.call(groupsResource.verbs.show, { folder: folder.data })
}

function routeTable(
  view: PageView,
  folder: string,
  rows: readonly RouteRow[],
  { mayChange, mayAdd }: { readonly mayChange: readonly boolean[]; readonly mayAdd: boolean },
): DataTable<RouteRow> {
  return {
    id: 'routes',
    caption: `Routes to ${folder}`,
    rows,
    rowId: ({ id }) => String(id),
    columns: [
      { label: 'Seq', cell: ({ seq }) => seq, isNumber: true },
      {
        label: 'Match',
        cell: ({ match }) => (match === '' ? html`<span class="muted">everything</span>` : html`<code>${match}</code>`),
        value: ({ match }) => match,
      },
      { label: 'Target', cell: ({ target }) => target },
      { label: 'Meaning', cell: (row) => html`${row.explain}${shadowNote(row)}`, value: ({ explain }) => explain },
    ],
    rowActions: ({ id }) => {
      const at = rows.findIndex((row) => row.id === id)
      if (!mayChange[at]) return EMPTY_HTML
      const move = (to: 'up' | 'down', text: string): Html =>
        view.button({ action: 'move', fixed: { id: String(id), to }, text, label: `Move route ${id} ${to}` })
      const remove = { action: 'remove', fixed: { id: String(id) }, text: 'Delete', label: `Delete route ${id}` }
      return html`${at > 0 ? move('up', '↑') : EMPTY_HTML}${at < rows.length - 1 ? move('down', '↓') : EMPTY_HTML} ${buttonLink(`${view.url({ route: String(id) })}#change-route`, 'Change')} ${view.button({ ...remove, isDangerous: true })}`
    },
    empty: {
      text: `No chat is routed to ${folder}. It still gets messages through its links.`,
      next: mayAdd ? html`<p>${buttonLink('#new-route', 'Add a route')}</p>` : undefined,
      command: view.inTerminal(`svc route ${view.host.instance} add 'room=<room>' ${folder}`),
    },
  }
}

function shadowNote({ shadowed_by: shadow }: RouteRow): Html {
  if (shadow === undefined) return EMPTY_HTML
  const by =
    shadow === 'another folder'
      ? 'a route of another folder'
      : `route ${shadow.id} (${shadow.match || 'everything'} to ${shadow.target})`
  return html` ${badge('has no effect', 'warn')} All its messages are taken by ${by}, which is tried first.`
}

function routeFields({ seq = 0, match, target }: { seq?: number; match?: string; target: string }): FormField[] {
  return [
    {
      name: 'match',
      label: 'Match',
      value: match,
      maxLength: 1024,
      placeholder: 'platform=telegram room=-100123',
      hint: 'key=glob pairs, all of which must match; keys: platform, room, chat_jid, sender, verb. Empty matches everything.',
    },
    {
      name: 'target',
      label: 'Target',
      value: target,
      isRequired: true,
      hint: 'The folder; with #observe its messages are only shown as context, with #<topic> they go to that topic.',
    },
    {
      name: 'seq',
      label: 'Seq',
      kind: 'number',
      value: String(seq),
      hint: 'Routes with a lower number are tried first.',
    },
  ]
}

function changeForm(view: PageView, route: RouteRow): Html {
  const { id } = route
  const form = view.form({ action: 'change', fixed: { id: String(id) }, fields: routeFields(route), submit: 'Save' })
  return section('change-route', `Change route ${id}`, form, buttonLink(view.url({ route: undefined }), 'Close'))
}
