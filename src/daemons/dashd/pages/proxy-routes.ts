// Routes of the front door. Only operators change them.
import { ProxydRoute } from '../../../core/links/proxyd-routes.ts'
import { proxydRoutesResource } from '../../../resources/proxyd-routes.ts'
import type { FormField } from '../../../web/dash/form.ts'
import { buttonLink, section } from '../../../web/dash/parts.ts'
import { type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { FormFields } from '../../http/form-request.ts'
import { definePage, type PageView } from '../page.ts'
import { optionalField, requiredField } from '../typed-fields.ts'

const proxyRoutes = proxydRoutesResource.verbs

export const proxyRoutesPage = definePage({
  path: '/dash/proxy-routes',
  title: 'Proxy routes',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  actions: {
    add: {
      run: async (view, fields) => {
        const { path } = await view.call(proxyRoutes.create, inputOf(fields))
        return { done: `Added the route ${path}.` }
      },
    },
    change: {
      run: async (view, fields) => {
        const { path } = await view.call(proxyRoutes.update, inputOf(fields))
        return { to: view.url({ path: undefined }), done: `Changed the route ${path}.` }
      },
    },
    remove: {
      verb: proxyRoutes.delete,
      done: 'Route deleted.',
      confirm: ({ path = '' }) => `Delete the route ${path}? Requests to it get 404 at once.`,
    },
  },
  show: async (view) => {
    const { limit, query } = view
    const { proxyd_routes: rows, next } = await view.call(proxyRoutes.list, { limit, after: query.after })
    const edited = rows.find(({ path }) => path === query.path)
    const add = view.form({ action: 'add', fields: [PATH, ...routeFields()], submit: 'Add route' })
    return {
      title: 'Proxy routes',
      main: html`<p class="hint">The front door sends each request to the longest path that matches. Its own paths, such as /chat/ and /dash/, cannot be routed elsewhere.</p>`,
      table: defineTable(routeTable(view, rows, next)),
      bottom: html`${edited ? changeForm(view, edited) : EMPTY_HTML}${section('new-proxy-route', 'Add a route', add)}`,
      isLive: true,
    }
  },
})

const AUTH_TEXTS: Readonly<Record<ProxydRoute['auth'], string>> = {
  public: 'Everyone',
  user: 'People who have signed in',
  operator: 'Operators',
}

function describeTarget(route: ProxydRoute): string {
  const { backend, redirect_to, strip_prefix, escapes, gated_by, preserve_headers = [] } = route
  const parts = [
    backend === undefined ? `Redirects to ${redirect_to ?? ''}` : `Is served by ${backend}`,
    ...(strip_prefix ? ['without the prefix of the path'] : []),
    ...(escapes === 'keep' ? ['with encoded slashes'] : []),
    ...(preserve_headers.length === 0 ? [] : [`with the headers ${preserve_headers.join(', ')} of the client`]),
    ...(gated_by === undefined ? [] : [`if ${gated_by} is set`]),
  ]
  return `${parts.join(', ')}.`
}

function routeTable(view: PageView, rows: readonly ProxydRoute[], next: string | undefined): DataTable<ProxydRoute> {
  return {
    id: 'proxy-routes',
    caption: 'Routes of the front door',
    rows,
    rowId: ({ path }) => path,
    columns: [
      {
        label: 'Path',
        cell: ({ path }) => html`<code>${path}</code>${path.endsWith('/') ? ' and below' : ''}`,
        value: ({ path }) => path,
      },
      { label: 'Who', cell: ({ auth }) => AUTH_TEXTS[auth] },
      { label: 'Meaning', cell: describeTarget },
    ],
    rowActions: ({ path }) =>
      html`${buttonLink(`${view.url({ path, after: view.query.after })}#change-proxy-route`, 'Change')} ${view.button({ action: 'remove', fixed: { path }, text: 'Delete', label: `Delete ${path}`, isDangerous: true })}`,
    empty: {
      text: 'The front door serves only the parts of this instance.',
      next: html`<p>${buttonLink('#new-proxy-route', 'Add a route')}</p>`,
    },
    next,
  }
}

const PATH: FormField = {
  name: 'path',
  label: 'Path',
  isRequired: true,
  placeholder: '/app/',
  hint: 'A prefix if it ends with /, otherwise one path.',
}

function routeFields(route?: ProxydRoute): FormField[] {
  return [
    {
      name: 'backend',
      label: 'Backend',
      value: route?.backend,
      placeholder: 'http://127.0.0.1:9000',
      hint: 'Either a backend or a redirect.',
    },
    { name: 'redirect_to', label: 'Redirect to', value: route?.redirect_to, hint: 'A path or an http(s) URL.' },
    {
      name: 'auth',
      label: 'Who',
      kind: 'select',
      options: ProxydRoute.shape.auth.options.map((auth) => [auth, AUTH_TEXTS[auth]] as const),
      value: route?.auth ?? 'operator',
    },
    { name: 'gated_by', label: 'Only if this setting is set', value: route?.gated_by, placeholder: 'SOME_SETTING' },
    {
      name: 'preserve_headers',
      label: 'Headers to keep',
      value: route?.preserve_headers?.join(', '),
      hint: 'Names separated by commas.',
    },
    {
      name: 'strip_prefix',
      label: 'Remove the prefix from the path',
      kind: 'checkbox',
      value: String(route?.strip_prefix ?? false),
    },
    {
      name: 'escapes',
      label: 'Accept encoded slashes',
      kind: 'checkbox',
      value: String(route?.escapes === 'keep'),
      hint: 'Sends %2F, %5C and %00 on as they are, for backends that use them within a name.',
    },
  ]
}

function inputOf(fields: FormFields): ProxydRoute {
  const headers = optionalField(fields, 'preserve_headers')
  const given = {
    backend: optionalField(fields, 'backend'),
    redirect_to: optionalField(fields, 'redirect_to'),
    gated_by: optionalField(fields, 'gated_by'),
    preserve_headers: headers?.split(',').flatMap((name) => name.trim() || []),
  }
  return {
    path: requiredField(fields, 'path'),
    // The verb checks the value.
    auth: requiredField(fields, 'auth') as ProxydRoute['auth'],
    strip_prefix: optionalField(fields, 'strip_prefix') === 'true',
    escapes: optionalField(fields, 'escapes') === 'true' ? 'keep' : 'refuse',
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
  }
}

function changeForm(view: PageView, route: ProxydRoute): Html {
  const { path } = route
  const form = view.form({ action: 'change', fixed: { path }, fields: routeFields(route), submit: 'Save' })
  return section('change-proxy-route', `Change ${path}`, form, buttonLink(view.url({ path: undefined }), 'Close'))
}
