// The agent of a folder: its model, the files that describe it, and its skills.
import {
  AGENT_FILE_MAX_BYTES,
  AgentFileName,
  type AgentSkill,
  MISSING_FILE,
  skillFile,
} from '../../../core/groups/agent-file.ts'
import { Refusal, refuse } from '../../../lib/refusal.ts'
import { groupsResource } from '../../../resources/groups.ts'
import type { FormField } from '../../../web/dash/form.ts'
import {
  buttonLink,
  groupDigits,
  link,
  notice,
  section,
  textBlock,
  timeOf,
  visibleText,
} from '../../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../../web/html.ts'
import { modelActions, renderModelSection } from '../model-section.ts'
import type { PageContent, PageView } from '../page.ts'
import { requiredField } from '../typed-fields.ts'
import { defineFolderView } from './view.ts'

const groups = groupsResource.verbs
/** A line break has six bytes in a form. */
const FORM_MAX_BYTES = 8 * AGENT_FILE_MAX_BYTES

type FileEntry = Awaited<ReturnType<typeof groups.files.run>>['files'][number]

export const agentView = defineFolderView({
  name: 'agent',
  title: 'Agent',
  actions: {
    ...modelActions,
    save_file: {
      maxBytes: FORM_MAX_BYTES,
      run: async (view, fields) => {
        const name = readName(fields.get('name'))
        const change = {
          folder: view.params.folder ?? '',
          name,
          version: fields.get('version') ?? '',
          // Browsers send line breaks as CR LF.
          content: (fields.get('content') ?? '').replaceAll('\r\n', '\n'),
        }
        await view.call(groups.write_file, change)
        return { done: `${name} saved. Agents read it at the next turn.` }
      },
    },
    create_skill: {
      run: async (view, fields) => {
        const folder = view.params.folder ?? ''
        const [skill, description] = [requiredField(fields, 'skill'), requiredField(fields, 'description')]
        const name = skillFile(skill) ?? refuse('invalid', SKILL_NAME_RULE)
        if ((await view.call(groups.read_file, { folder, name })).exists)
          refuse('conflict', `skill ${skill} exists already`)
        const content = `---\nname: ${skill}\ndescription: ${JSON.stringify(description)}\n---\n\n# ${skill}\n`
        await view.call(groups.write_file, { folder, name, version: MISSING_FILE, content })
        return { to: view.url({ file: name }), done: `Created the skill ${skill}. Write below how the agent does it.` }
      },
    },
    remove_skill: {
      verb: groups.remove_skill,
      done: 'Skill deleted.',
      confirm: ({ skill = '' }) => `Delete the skill ${visibleText(skill)} with all its files?`,
    },
  },
  show: (view, folder) => (view.query.file === undefined ? showAgent(view, folder) : showEditor(view, folder)),
})

const SKILL_NAME_RULE = 'skill must be 1 to 64 letters, digits, ".", "_" and "-", and start with a letter or digit'

function readName(text: string | undefined): AgentFileName {
  const { success, data } = AgentFileName.safeParse(text)
  return success ? data : refuse('not_found', 'there is no such file')
}

async function showAgent(view: PageView, folder: string): Promise<Omit<PageContent, 'title'>> {
  const [{ files }, { skills }] = [
    await view.call(groups.files, { folder }),
    await view.call(groups.skills, { folder }),
  ]
  return {
    top: await renderModelSection(view),
    bottom: html`${section('files', 'Files', fileTable(view, files))}${section('skills', 'Skills', skillTable(view, folder, skills))}${section('new-skill', 'Create a skill', newSkillForm(view))}`,
  }
}

function fileTable(view: PageView, files: readonly FileEntry[]): Html {
  return view.list<FileEntry>({
    id: 'agent-files',
    caption: 'Files that describe the agent',
    rows: files,
    rowId: ({ name }) => name,
    columns: [
      {
        label: 'File',
        cell: ({ name, fault }) => (fault === undefined ? link(view.url({ file: name, kind: undefined }), name) : name),
      },
      { label: 'Purpose', cell: ({ about }) => about },
      {
        label: 'Size',
        cell: ({ bytes }) => (bytes === undefined ? 'none yet' : `${groupDigits(bytes)} bytes`),
        isNumber: true,
      },
      {
        label: 'Changed',
        cell: ({ modified_at, fault }) =>
          fault === undefined ? (modified_at ? timeOf(modified_at, view.nowMs) : '') : visibleText(fault),
      },
    ],
    empty: { text: 'The folder has no workspace.' },
  })
}

function newSkillForm(view: PageView): Html {
  const fields: FormField[] = [
    { name: 'skill', label: 'Name', isRequired: true, maxLength: 64, placeholder: 'weekly-report' },
    {
      ...{ name: 'description', label: 'Description', isRequired: true, maxLength: 500 },
      hint: 'What it does, and when the agent uses it.',
    },
  ]
  return view.form({ action: 'create_skill', fields, submit: 'Create skill' })
}

function skillTable(view: PageView, folder: string, skills: readonly AgentSkill[]): Html {
  return view.list<AgentSkill>({
    id: 'skills-list',
    caption: `Skills of ${folder}`,
    rows: skills,
    rowId: ({ name }) => name,
    columns: [
      {
        label: 'Skill',
        cell: ({ name }) => {
          const file = skillFile(name)
          return file === undefined ? visibleText(name) : link(view.url({ file, kind: undefined }), name)
        },
      },
      { label: 'What it does', cell: ({ description, fault }) => visibleText(fault ?? description ?? '') },
      {
        label: 'From',
        cell: ({ package: owner }) => (owner === undefined ? 'the folder' : `package ${visibleText(owner)}`),
      },
    ],
    rowActions: ({ name: skill, package: owner }) =>
      owner === undefined
        ? view.button({
            ...{ action: 'remove_skill', fixed: { folder, skill }, text: 'Delete', label: `Delete the skill ${skill}` },
            isDangerous: true,
          })
        : EMPTY_HTML,
    empty: {
      text: 'The agent has no skills. They are directories with a SKILL.md below .claude/skills in its workspace.',
      next: html`<p>${buttonLink('#new-skill', 'Create a skill')}</p>`,
    },
  })
}

async function showEditor(view: PageView, folder: string): Promise<Omit<PageContent, 'title'>> {
  const name = readName(view.query.file)
  const { content, version, exists } = await view.call(groups.read_file, { folder, name })
  const { skills } = await view.call(groups.skills, { folder })
  const owner = skills.find((skill) => skillFile(skill.name) === name)?.package
  const ofPackage = owner === undefined ? '' : ` It is part of the package ${owner}, whose updates keep your changes.`
  const field = {
    name: 'content',
    label: exists ? name : `${name} (new)`,
    kind: 'multiline',
    rows: 24,
    isUnmarked: true,
    value: content,
    hint: `At most ${AGENT_FILE_MAX_BYTES} bytes. The agent can change the file, too.${ofPackage}`,
  } as const
  const form = view.form({ action: 'save_file', fields: [field], submit: 'Save', fixed: { name, version } })
  return {
    top: html`<p>${link(view.url({ file: undefined }), 'Agent')} · ${name}</p>${isConflict(view) ? currentFile(content) : EMPTY_HTML}${form}`,
  }
}

/** Whether a save was refused because the file has changed: the form then has the text that was not saved. */
function isConflict({ c }: PageView): boolean {
  return c.error instanceof Refusal && c.error.code === 'conflict'
}

function currentFile(content: string): Html {
  return html`${notice('warn', 'The file as it is now is below, then your text. Saving your text replaces the file.')}<div id="current-file">${textBlock('current-text', content)}</div>`
}
