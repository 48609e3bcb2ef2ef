// /dash/packages: installed packages. Installing runs programs of others on this machine, so it stays on the command line.
import { installedPackagesResource } from '../../../resources/installed-packages.ts'
import { timeOf, visibleText } from '../../../web/dash/parts.ts'
import { defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { definePage } from '../page.ts'

const { list } = installedPackagesResource.verbs

type InstalledPackage = Awaited<ReturnType<typeof list.run>>['installed_packages'][number]

export const packagesPage = definePage({
  path: '/dash/packages',
  title: 'Packages',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  show: async (view) => {
    const { nowMs } = view
    const { instance } = view.host
    const { installed_packages, next } = await view.call(list, { limit: view.limit, after: view.query.after })
    const install = view.inTerminal(`svc packages ${instance} install <source>`)
    return {
      title: 'Packages',
      table: defineTable<InstalledPackage>({
        id: 'packages',
        caption: 'Installed packages',
        rows: installed_packages,
        next,
        rowId: ({ folder, name }) => `${folder} ${name}`,
        columns: [
          { label: 'Package', cell: ({ name }) => name },
          { label: 'For', cell: ({ folder }) => folder || 'the instance' },
          { label: 'Source', cell: ({ source }) => visibleText(source) },
          {
            label: 'Revision',
            cell: ({ revision }) => html`<code>${revision}</code>`,
            value: ({ revision }) => revision,
          },
          { label: 'Brings', cell: contentsOf, value: ({ manifest }) => JSON.stringify(manifest ?? {}) },
          {
            label: 'Installed',
            cell: ({ installed_at }) => timeOf(installed_at, nowMs),
            value: ({ installed_at }) => installed_at,
          },
        ],
        rowActions: ({ name }) => view.command(`svc packages ${instance} upgrade ${name}`),
        empty: { text: 'No package is installed.', command: install },
      }),
      // An empty list says it already.
      bottom: installed_packages.length === 0 ? EMPTY_HTML : install,
    }
  },
})

function contentsOf({ manifest = {} }: InstalledPackage): Html {
  const parts = Object.entries(manifest).filter(([, names]) => names.length > 0)
  if (parts.length === 0) return EMPTY_HTML
  return html`<ul class="plain">${parts.map(([kind, names]) => html`<li>${kind.replaceAll('_', ' ')}: ${visibleText(names.join(', '))}</li>`)}</ul>`
}
