// Hosts that a folder may reach, and those that it was denied, each with a button that allows it.
import { DEFAULT_HOSTS } from '../../../core/access/allowlist.ts'
import { deniedHost, unallowableReason } from '../../../core/access/network-denials.ts'
import { networkRulesResource } from '../../../resources/network-rules.ts'
import { buttonLink, section, timeOf } from '../../../web/dash/parts.ts'
import { type DataTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { PageView } from '../page.ts'
import { defineFolderView } from './view.ts'

const rules = networkRulesResource.verbs
type Denial = Awaited<ReturnType<typeof rules.denied.run>>['network_denials'][number]
type Rule = Awaited<ReturnType<typeof rules.list.run>>['network_rules'][number]

const DENIALS = 50

export const networkView = defineFolderView({
  name: 'network',
  title: 'Network',
  actions: {
    allow: {
      verb: rules.allow,
      done: ({ added, target, warning }: { added: boolean; target: string; warning?: string }) =>
        `${added ? `Allowed ${target} and its subdomains.` : `${target} is allowed already.`}${warning === undefined ? '' : ` ${warning}`}`,
    },
    remove: {
      verb: rules.deny,
      done: 'Rule removed.',
      confirm: ({ target = '', folder = '' }) => `Remove the rule that lets ${folder} reach ${target}?`,
    },
  },
  show: async (view, folder) => {
    const { hosts } = await view.call(rules.resolve, { folder })
    const { network_rules: own, next } = await view.call(rules.list, {
      folder,
      limit: view.limit,
      after: view.query.after,
    })
    const { network_denials: denied } = await view.call(rules.denied, { folder, limit: DENIALS })
    const mayAllow = await view.may(rules.allow, { folder, target: 'example.com' })
    const form = view.form({
      action: 'allow',
      fixed: { folder },
      fields: [
        {
          name: 'target',
          label: 'Host',
          isRequired: true,
          placeholder: 'api.example.com',
          hint: 'The host and its subdomains, for this folder and those below it.',
        },
      ],
      submit: 'Allow host',
    })
    return {
      main: html`${section('denied', 'Denied hosts', view.list(denialTable(view, folder, denied, { hosts, mayAllow })))}${section('in-force', 'Hosts it may reach', hostsInForce(hosts, own))}<h2>Own rules</h2>`,
      table: defineTable(ruleTable(view, folder, own, { next, mayAllow })),
      bottom: mayAllow ? section('new-rule', 'Allow a host', form) : EMPTY_HTML,
      isLive: true,
    }
  },
})

function denialTable(
  view: PageView,
  folder: string,
  rows: readonly Denial[],
  { hosts, mayAllow }: { readonly hosts: readonly string[]; readonly mayAllow: boolean },
): DataTable<Denial> {
  const isAllowed = (name: string): boolean => hosts.some((host) => name === host || name.endsWith(`.${host}`))
  const action = (denial: Denial): Html => {
    const target = deniedHost(denial)
    const reason = unallowableReason(denial)
    if (reason !== undefined) return html`<span class="muted">${reason}</span>`
    if (isAllowed(target)) return html`<span class="muted">allowed now</span>`
    if (!mayAllow) return EMPTY_HTML
    return view.button({
      action: 'allow',
      fixed: { folder, target },
      text: 'Allow',
      label: `Allow ${target}`,
      isPrimary: true,
    })
  }
  return {
    id: 'denials',
    caption: `Hosts that ${folder} was denied`,
    rows,
    rowId: ({ host, sni, port, reason }) => `${host} ${sni} ${port} ${reason}`,
    columns: [
      { label: 'Host', cell: (denial) => deniedHost(denial) },
      { label: 'Port', cell: ({ port }) => (port === 0 ? '' : port), isNumber: true },
      { label: 'Reason', cell: ({ reason }) => reason.replaceAll('-', ' ') },
      { label: 'Times', cell: ({ count }) => count, isNumber: true },
      { label: 'Last', cell: ({ last_at }) => timeOf(last_at, view.nowMs) },
    ],
    rowActions: action,
    empty: { text: 'No host was denied.' },
  }
}

function hostsInForce(hosts: readonly string[], own: readonly Rule[]): Html {
  const ownHosts = new Set(own.map(({ target }) => target))
  const originOf = (host: string): string => {
    if (ownHosts.has(host)) return 'own rule'
    return DEFAULT_HOSTS.includes(host) ? 'default' : 'rule of a folder above or of the instance'
  }
  return html`<ul>${hosts.map((host) => html`<li><code>${host}</code> <span class="muted">${originOf(host)}</span></li>`)}</ul>`
}

function ruleTable(
  view: PageView,
  folder: string,
  rows: readonly Rule[],
  { next, mayAllow }: { readonly next?: string | undefined; readonly mayAllow: boolean },
): DataTable<Rule> {
  return {
    id: 'rules',
    caption: `Network rules of ${folder}`,
    rows,
    rowId: ({ target }) => target,
    columns: [
      { label: 'Host', cell: ({ target }) => target },
      { label: 'Allowed by', cell: ({ created_by }) => created_by },
      {
        label: 'Since',
        cell: ({ created_at }) => timeOf(created_at, view.nowMs),
        value: ({ created_at }) => created_at,
      },
    ],
    rowActions: ({ target }) =>
      mayAllow
        ? view.button({
            action: 'remove',
            fixed: { folder, target },
            text: 'Remove',
            label: `Remove ${target}`,
            isDangerous: true,
          })
        : EMPTY_HTML,
    empty: {
      text: `${folder} has no rules of its own.`,
      next: mayAllow ? html`<p>${buttonLink('#new-rule', 'Allow a host')}</p>` : undefined,
      command: view.inTerminal(`svc network ${view.host.instance} allow ${folder} api.example.com`),
    },
    next,
  }
}
