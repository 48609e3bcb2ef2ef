// /dash/manifest: the configuration as YAML, and applying a manifest in two steps: the plan as a diff, then exactly that plan.
import type { Hono } from 'hono'
import { setUpMissingFolders } from '../../../core/groups/products.ts'
import { type ApplyResult, manifestVerbs } from '../../../faces/manifest/manifest-verbs.ts'
import type { PlannedRow } from '../../../faces/manifest/planned-rows.ts'
import { refuse } from '../../../lib/refusal.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { resources } from '../../../resources/index.ts'
import { badge, buttonLink, notice, section, type Tone, visibleText } from '../../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import type { DaemonContext } from '../../daemon.ts'
import type { FormFields } from '../../http/form-request.ts'
import { personPage } from '../../http/signed-in.ts'
import { definePage, type PageContent, type PageView } from '../page.ts'
import { createView } from '../view.ts'

const PATH = '/dash/manifest'
const DOWNLOAD_PATH = `${PATH}/download`
/** Of the form; a browser sends each special character as three. Larger manifests are for the command line. */
const FORM_MAX = 4 * 1024 * 1024
/** Rows of a plan that are shown. */
const ROWS_SHOWN = 500
const VALUE_SHOWN = 300

const verbs = manifestVerbs(resources)

type Plan = Extract<ApplyResult, { kind: 'planned' }>

export const manifestPage = definePage({
  path: PATH,
  title: 'Export and apply',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  actions: {
    plan: { maxBytes: FORM_MAX, run: showPlan },
    apply: { maxBytes: FORM_MAX, run: applyPlan },
  },
  show: async (view) => {
    const { instance } = view.host
    const mayApply = await view.may(verbs.apply, { source: '-', manifest: EMPTY_MANIFEST, force: false, dry_run: true })
    const form = mayApply ? planForm(view) : html`<p>A row takes rights from you, so you cannot apply a manifest.</p>`
    return {
      title: 'Export and apply',
      top: html`${section(
        'export',
        'Export',
        html`<p>The configuration as one YAML document: groups, routes, grants, tasks, network rules. Secrets and tokens are never in it.</p><p>${buttonLink(DOWNLOAD_PATH, 'Download YAML')}</p>${view.inTerminal(`svc export ${instance} config.yaml`)}`,
      )}${section('apply', 'Apply', form)}`,
    }
  },
})

/** For the check of rights, which does not look at it. */
const EMPTY_MANIFEST = { sha256: '', version: 0, sections: new Map() }

/** The script shows it, and puts the text of the file into the form. */
const FILE_FIELD = html`<p class="field" hidden><label for="manifest-file">Read it from a file</label><input id="manifest-file" type="file" accept=".yaml,.yml" data-fills="form-plan-manifest"></p>`

function planForm(view: PageView): Html {
  return html`<p>Paste a manifest. Each resource that it names becomes equal to it: rows that are not listed are removed. The next page shows the plan; nothing changes before you apply it.</p>${FILE_FIELD}${view.form(
    {
      action: 'plan',
      submit: 'Show the plan',
      fields: [
        { name: 'manifest', label: 'Manifest', kind: 'multiline', rows: 16, isRequired: true },
        {
          name: 'force',
          label: 'Ignore config_version',
          kind: 'checkbox',
          hint: 'The version of the manifest must be that of the instance, so that it overwrites no newer change.',
        },
      ],
    },
  )}${view.inTerminal(`svc apply ${view.host.instance} config.yaml --dry-run`)}`
}

/** Browsers send line breaks as CR LF. */
function inputOf(fields: FormFields): { source: string; manifest: string; force: boolean } {
  const manifest = (fields.get('manifest') ?? '').replaceAll('\r\n', '\n')
  return { source: 'dashboard', manifest, force: fields.get('force') === 'true' }
}

async function showPlan(view: PageView, fields: FormFields): Promise<PageContent> {
  const input = inputOf(fields)
  const plan = await view.call(verbs.apply, { ...input, dry_run: true })
  if (plan.kind === 'mismatch') return refuseVersion(plan)
  if (plan.kind === 'applied') throw new Error('a dry run applied a manifest')
  const fixed = { manifest: input.manifest, force: String(input.force), planned: plan.fingerprint }
  const changes = plan.rows.length
  const submit = changes === 0 ? 'Apply without changes' : `Apply ${changes === 1 ? '1 change' : `${changes} changes`}`
  return {
    title: 'Plan',
    top: html`${plan.warnings.map((warning) => notice('warn', warning.replace('<instance>', view.host.instance)))}<p>${summaryOf(plan)}</p><div class="choice">${view.form({ action: 'apply', fields: [], submit, fixed, isDangerous: true })}${buttonLink(PATH, 'Cancel')}</div>`,
    main: html`${renderEffects(plan)}${renderRows(plan.rows)}`,
  }
}

function refuseVersion({ manifest, store }: Extract<ApplyResult, { kind: 'mismatch' }>): never {
  return refuse(
    'conflict',
    `config_version mismatch: the manifest has ${manifest}, the instance ${store}`,
    'export again and edit that, or ignore config_version',
  )
}

async function applyPlan(view: PageView, fields: FormFields) {
  const planned = fields.get('planned') ?? refuse('invalid', 'this form has no plan', 'show the plan first')
  const applied = await view.call(verbs.apply, { ...inputOf(fields), planned })
  if (applied.kind === 'mismatch') return refuseVersion(applied)
  await setUpFolders(view, applied)
  return { to: PATH, done: `Manifest applied; config_version is ${applied.to}.` }
}

/** A manifest only creates rows. */
async function setUpFolders(view: PageView, { plan }: Exclude<ApplyResult, { kind: 'mismatch' }>): Promise<void> {
  const added = new Set(plan.find(({ resource }) => resource === groupsResource.name)?.added ?? [])
  const { layout } = view.host
  if (!layout || added.size === 0) return
  let after: string | undefined
  do {
    const { groups, next } = await view.call(groupsResource.verbs.list, { limit: 1000, after })
    await setUpMissingFolders(
      layout,
      groups.filter(({ folder }) => added.has(folder)),
    )
    after = next
  } while (after !== undefined)
}

function summaryOf({ rows, from, to }: Plan): string {
  const count = (change: PlannedRow['change']): number => rows.filter((row) => row.change === change).length
  const counts = (['added', 'changed', 'moved', 'removed'] as const).map((change) => `${count(change)} ${change}`)
  return `${counts.join(', ')}; config_version ${from} becomes ${to}. If the configuration changes before you apply, the plan is refused.`
}

function renderEffects({ effects }: Plan): Html {
  if (effects.length === 0) return EMPTY_HTML
  const lines = effects.flatMap(({ folder, ends, stays, inherits, without_group }) => [
    ...(ends === undefined ? [] : [html`<li>${folder}: deleted with it: ${visibleText(ends)}</li>`]),
    ...(stays === undefined ? [] : [html`<li>${folder}: kept: ${visibleText(stays)}</li>`]),
    ...(inherits === undefined
      ? []
      : [html`<li>${folder}: inherited from a deleted group: ${visibleText(inherits)}</li>`]),
    ...(without_group === undefined ? [] : [html`<li>${folder} is not a group: ${visibleText(without_group)}</li>`]),
  ])
  return section('effects', 'Effects of groups on other rows', html`<ul>${lines}</ul>`)
}

const MARKS: Readonly<Record<PlannedRow['change'], Tone>> = {
  added: 'ok',
  changed: 'busy',
  moved: 'idle',
  removed: 'fault',
}

function renderRows(rows: readonly PlannedRow[]): Html {
  if (rows.length === 0) return html`<p>The instance already is as the manifest says.</p>`
  const parts = [...Map.groupBy(rows.slice(0, ROWS_SHOWN), ({ resource }) => resource)].map(([resource, own]) =>
    section(`plan-${resource}`, resource, html`<ul class="list">${own.map(renderRow)}</ul>`),
  )
  const more =
    rows.length > ROWS_SHOWN
      ? html`<p>And ${rows.length - ROWS_SHOWN} more rows, which the command line lists: <code>svc apply --dry-run</code></p>`
      : EMPTY_HTML
  return html`${parts}${more}`
}

function renderRow({ key, change, fields }: PlannedRow): Html {
  const shown = fields.map(
    ({ name, before, after }) =>
      html`<div><dt>${name}</dt><dd>${before === undefined ? EMPTY_HTML : html`<del>${shorten(before)}</del> `}${after === undefined ? EMPTY_HTML : html`<ins>${shorten(after)}</ins>`}</dd></div>`,
  )
  return html`<li><div class="what">${badge(change, MARKS[change])} <strong>${visibleText(key)}</strong>${change === 'moved' ? html` <span class="muted">only its position changes</span>` : EMPTY_HTML}${shown.length === 0 ? EMPTY_HTML : html`<dl class="details">${shown}</dl>`}</div></li>`
}

function shorten(value: string): string {
  const text = visibleText(value)
  return text.length > VALUE_SHOWN ? `${text.slice(0, VALUE_SHOWN)}…` : text
}

/** The export as a file. */
export function mountManifestDownload(app: Hono, daemon: DaemonContext): void {
  const { host } = daemon
  app.get(
    DOWNLOAD_PATH,
    personPage(host, async (c, person) => {
      const view = await createView({ daemon, c, person })
      if (!view.isOperator) refuse('not_found', 'there is nothing at this path')
      const text = await view.call(verbs.export, {})
      return new Response(text, {
        headers: {
          'Content-Type': 'application/yaml; charset=utf-8',
          'Content-Disposition': `attachment; filename="${host.instance}.yaml"`,
          'Cache-Control': 'no-store',
        },
      })
    }),
  )
}
