// What a folder publishes: its web routes, its files and the host names bound to it.
import { PAGE_FILE_MAX_BYTES, PageSlot } from '../../../core/links/published-pages.ts'
import { WebRoute } from '../../../core/links/web-routes.ts'
import { refuse } from '../../../lib/refusal.ts'
import { webHostsResource } from '../../../resources/web-hosts.ts'
import { webRoutesResource } from '../../../resources/web-routes.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { buttonLink, link, section, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { FormFields, FormFile } from '../../http/form-request.ts'
import { FORM_MAX } from '../form-fields.ts'
import type { ActionRedirect, PageView } from '../page.ts'
import { defineFolderView } from './view.ts'

const webRoutes = webRoutesResource.verbs
const webHosts = webHostsResource.verbs
type Published = Awaited<ReturnType<typeof webRoutes.of_folder.run>>
type PublishedRow = NonNullable<Published['files']>[number]

export const webView = defineFolderView({
  name: 'web',
  title: 'Web',
  actions: {
    publish: { maxBytes: PAGE_FILE_MAX_BYTES + FORM_MAX, run: publish },
    unpublish: {
      verb: webRoutes.unpublish,
      done: 'File deleted. Browsers may show it a little longer.',
      confirm: ({ name = '' }) => `Delete the published file ${visibleText(name)}?`,
    },
    bind: { verb: webHosts.bind, done: 'The host name serves the published pages. Its DNS must point to this server.' },
    unbind: {
      verb: webHosts.delete,
      done: 'The host name no longer serves the published pages.',
      confirm: ({ hostname = '' }) => `Stop serving the published pages under ${hostname}?`,
    },
    add: { verb: webRoutes.create, done: 'Web route added.' },
    change: { verb: webRoutes.update, done: 'Web route changed.' },
    remove: {
      verb: webRoutes.delete,
      done: 'Web route deleted.',
      confirm: ({ path_prefix = '' }) => `Delete the web route ${path_prefix}?`,
    },
  },
  show: async (view, folder) => {
    const published = await view.call(webRoutes.of_folder, { folder })
    const mayAdd = await view.may(webRoutes.create, { folder, path_prefix: `/pub/${folder}/`, access: 'public' })
    const table = await routeTable(view, folder, published.routes, mayAdd)
    const edited = published.routes.find(({ path_prefix }) => path_prefix === view.query.path)
    const mayBind = await view.may(webHosts.bind, { hostname: 'example.com', folder })
    const addForm = view.form({
      action: 'add',
      fixed: { folder },
      fields: [pathField(folder), ...accessFields()],
      submit: 'Add web route',
    })
    return {
      main: html`${section('hosts', 'Host names', hostList(view, folder, published.hosts, mayBind))}${section('files', 'Published files', fileList(view, folder, published))}<h2>Web routes</h2>`,
      table: defineTable(table),
      bottom: html`${published.files ? section('new-file', 'Publish a file', publishForm(view)) : EMPTY_HTML}${mayBind ? bindForm(view, folder) : EMPTY_HTML}${edited ? changeForm(view, edited) : EMPTY_HTML}${mayAdd ? section('new-web-route', 'Add a web route', addForm) : EMPTY_HTML}`,
      isLive: true,
    }
  },
})

const ACCESS_TEXTS: Readonly<Record<WebRoute['access'], string>> = {
  public: 'Everyone may see it.',
  auth: 'People who have signed in may see it.',
  deny: 'Not served to anyone.',
  redirect: 'Redirects',
}

async function routeTable(
  view: PageView,
  folder: string,
  rows: readonly WebRoute[],
  mayAdd: boolean,
): Promise<DataTable<WebRoute>> {
  const may = await view.mayEach(
    webRoutes.update,
    rows.map(({ path_prefix }) => ({ path_prefix })),
  )
  return {
    id: 'web-routes',
    caption: `Web routes of ${folder}`,
    rows,
    rowId: ({ path_prefix }) => path_prefix,
    columns: [
      {
        label: 'Path',
        cell: ({ path_prefix }) => link(path_prefix, path_prefix),
        value: ({ path_prefix }) => path_prefix,
      },
      {
        label: 'Access',
        cell: ({ access, redirect_to }) =>
          access === 'redirect'
            ? html`Redirects to ${link(redirect_to ?? '/', redirect_to ?? '')}.`
            : ACCESS_TEXTS[access],
        value: ({ access, redirect_to }) => (redirect_to === undefined ? access : `redirect to ${redirect_to}`),
      },
      {
        label: 'Created',
        cell: ({ created_at }) => timeOf(created_at, view.nowMs),
        value: ({ created_at }) => created_at,
      },
    ],
    rowActions: ({ path_prefix }) => {
      if (!may[rows.findIndex((row) => row.path_prefix === path_prefix)]) return EMPTY_HTML
      const remove = { action: 'remove', fixed: { path_prefix }, text: 'Delete', label: `Delete ${path_prefix}` }
      return html`${buttonLink(`${view.url({ path: path_prefix })}#change-web-route`, 'Change')} ${view.button({ ...remove, isDangerous: true })}`
    },
    empty: {
      text: `${folder} has no web routes. Its files under /pub/${folder}/ are public, those under /priv/${folder}/ are for people with a right on it.`,
      next: mayAdd ? html`<p>${buttonLink('#new-web-route', 'Add a web route')}</p>` : undefined,
    },
  }
}

function hostList(view: PageView, folder: string, hosts: readonly string[], mayBind: boolean): Html {
  if (hosts.length === 0)
    return html`<p class="hint">No host name is bound to ${folder}. ${mayBind ? link('#new-host', 'Bind a host name') : 'Operators bind host names.'}</p>`
  const scheme = new URL(view.host.webBase).protocol
  const unbind = (hostname: string): Html =>
    view.button({
      action: 'unbind',
      fixed: { hostname },
      text: 'Unbind',
      label: `Unbind ${hostname}`,
      isDangerous: true,
    })
  return html`<ul>${hosts.map((host) => html`<li>${link(`${scheme}//${host}/`, host)} ${mayBind ? unbind(host) : EMPTY_HTML}</li>`)}</ul>`
}

function bindForm(view: PageView, folder: string): Html {
  const hostname: FormField = {
    name: 'hostname',
    label: 'Host name',
    isRequired: true,
    maxLength: 253,
    placeholder: 'shop.example.com',
    hint: `Serves the published pages of ${folder} at its root. Its DNS must point to this server.`,
  }
  const form = view.form({ action: 'bind', fixed: { folder }, fields: [hostname], submit: 'Bind host name' })
  return section('new-host', 'Bind a host name', form)
}

function fileList(view: PageView, folder: string, { files, has_more_files }: Published): Html {
  if (!files) return html`<p class="hint">The files are not on this machine.</p>`
  const table: DataTable<PublishedRow> = {
    id: 'published',
    caption: `Published files of ${folder}`,
    rows: files,
    rowId: ({ path }) => path,
    columns: [
      { label: 'File', cell: ({ path }) => link(path, path) },
      { label: 'For', cell: ({ slot }) => SLOT_TEXTS[slot] },
      { label: 'Bytes', cell: ({ bytes }) => bytes.toLocaleString('en'), isNumber: true },
      { label: 'Changed', cell: ({ modified_at }) => timeOf(modified_at, view.nowMs) },
    ],
    rowActions: ({ slot, name, path }) =>
      view.button({
        ...{ action: 'unpublish', fixed: { folder, slot, name }, text: 'Delete', label: `Delete ${path}` },
        isDangerous: true,
      }),
    empty: {
      text: `${folder} has published nothing.`,
      next: html`<p>${buttonLink('#new-file', 'Publish a file')}</p>`,
    },
  }
  const more = has_more_files ? html`<p class="hint">There are more files than are shown here.</p>` : EMPTY_HTML
  return html`${view.list(table)}${more}`
}

async function publish(
  view: PageView,
  fields: FormFields,
  files: ReadonlyMap<string, FormFile>,
): Promise<ActionRedirect> {
  const file = files.get('file')
  const text = fields.get('text') ?? ''
  if ((file === undefined) === (text === '')) refuse('invalid', 'choose a file, or write a text', 'not both')
  // Browsers send line breaks as CR LF.
  const data = file ? file.bytes : text.replaceAll('\r\n', '\n')
  const name = fields.get('name') || file?.name || refuse('invalid', 'name is needed for a text', 'such as index.html')
  const { path, is_new } = await view.call(webRoutes.publish, {
    folder: view.params.folder ?? '',
    slot: PageSlot.safeParse(fields.get('slot')).data ?? refuse('invalid', 'slot must be pub or priv'),
    name,
    content: Buffer.from(data).toString('base64'),
  })
  return { done: `${is_new ? 'Published' : 'Replaced'} ${visibleText(path)}.` }
}

const SLOT_TEXTS: Readonly<Record<PageSlot, string>> = {
  pub: 'everyone',
  priv: 'people who may talk to the folder',
}

function publishForm(view: PageView): Html {
  const slots = PageSlot.options.map((slot) => [slot, SLOT_TEXTS[slot]] as const)
  const fields: FormField[] = [
    {
      ...{ name: 'file', label: 'File', kind: 'file', isUnmarked: true, inputNames: ['content'] },
      hint: `At most ${PAGE_FILE_MAX_BYTES / 1024 / 1024} MiB. An existing file of the same name is replaced.`,
    },
    { name: 'text', label: 'Text, if you choose no file', kind: 'multiline', rows: 4, isUnmarked: true },
    {
      ...{ name: 'name', label: 'Name', maxLength: 500, placeholder: 'docs/index.html' },
      hint: 'Its path below the folder. Default: the name of the chosen file.',
    },
    { name: 'slot', label: 'For', kind: 'select', options: slots, value: 'pub' },
  ]
  return view.form({ action: 'publish', fields, submit: 'Publish' })
}

function pathField(folder: string): FormField {
  return {
    name: 'path_prefix',
    label: 'Path',
    isRequired: true,
    placeholder: `/pub/${folder}/`,
    hint: 'A prefix if it ends with /, otherwise one path.',
  }
}

function accessFields(route?: WebRoute): FormField[] {
  return [
    {
      name: 'access',
      label: 'Access',
      kind: 'select',
      options: WebRoute.shape.access.options,
      value: route?.access ?? 'public',
    },
    {
      name: 'redirect_to',
      label: 'Redirect to',
      value: route?.redirect_to,
      hint: 'A path, only with access redirect.',
    },
  ]
}

function changeForm(view: PageView, route: WebRoute): Html {
  const { path_prefix } = route
  const form = view.form({ action: 'change', fixed: { path_prefix }, fields: accessFields(route), submit: 'Save' })
  return section('change-web-route', `Change ${path_prefix}`, form, buttonLink(view.url({ path: undefined }), 'Close'))
}
