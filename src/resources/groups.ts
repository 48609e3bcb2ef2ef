// Groups: one folder with one agent. The command line and the dashboard create and remove them; REST is read-only.
import { z } from 'zod'
import { acl } from '../core/access/acl.ts'
import { creatorOf } from '../core/access/caller.ts'
import { folderBaseName, parentFolderOf, ROOT_FOLDER } from '../core/access/tiers.ts'
import {
  AgentFile,
  AgentFileEntry,
  AgentFileName,
  AgentFileText,
  AgentFileVersion,
  AgentSkill,
  SkillName,
} from '../core/groups/agent-file.ts'
import { findReferencesOf, purgeFolderReferences } from '../core/groups/folder-references.ts'
import { IDENTITY_KEYS, PICTURE_BYTES_MAX } from '../core/groups/group-config.ts'
import { changeSetting, GROUP_KEYS, type GroupKey, settingOf } from '../core/groups/group-settings.ts'
import { FolderActivity, Group, groups } from '../core/groups/groups.ts'
import { RoutableJid, Route } from '../core/routing/routes.ts'
import { readFolderBudget } from '../core/turns/budget.ts'
import { DailyBudget, DailyCap } from '../core/turns/costs.ts'
import { base64Bytes, Folder, line, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { canOperate, INSTANCE_SCOPE, operatorOn, operatorWho, requireToolForAgents } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { administeredRows, layoutOf, listVerb, mustFindGroup, Paging, readPage } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const ReferenceRows = z.object({ folder: z.string(), kind: z.string(), names: z.array(z.string()).readonly() })

const NewGroup = z.object({
  folder: Folder,
  jid: RoutableJid.optional(),
  name: Group.shape.name.optional(),
  product: Group.shape.product.default('assistant'),
  move: z.boolean().default(false).describe('Put the route before all routes of the chat to other folders'),
})

const AddedGroup = z.object({
  added: z.boolean(),
  routed: z.int(),
  match: z.string().optional().describe('Match of the first route, if it names the platform too'),
  shared_with: z.string().optional().describe('A chat of another platform whose room has the same name'),
  in_front: z.array(Route).optional().describe('Routes to other folders that match the chat before the new route'),
  overtaken: z.array(Route).optional().describe('Routes to other folders that matched the chat before'),
  inherited: z.array(ReferenceRows).optional().describe('Rows left by an earlier group of this name'),
})

const ShownIdentity = z.object({
  name: z.string(),
  picture: z.string().optional().describe('Path of an image in the workspace'),
  colour: z.string().optional(),
  greeting: z.string().optional(),
  starters: z.array(z.string()),
})

const Removal = z.object({ is_group: z.boolean(), ends: z.array(ReferenceRows), stays: z.array(ReferenceRows) })

/** Settings that administrators of a folder may change. The others decide which program runs on this machine, or limit them. */
const OWN_SETTINGS: ReadonlySet<GroupKey> = new Set([
  'name',
  ...IDENTITY_KEYS,
  'open',
  'observe_window_messages',
  'observe_window_chars',
  'model',
  'tools',
  'work_paths',
  'vision',
])

/** Top-level folders belong to the instance. */
function parentOf(folder: string): string {
  return parentFolderOf(folder) ?? INSTANCE_SCOPE
}

export const groupsResource = defineResource({
  of: groups,
  title: 'Groups',
  servedBy: 'routd',
  exported: {
    checkWhole: (rows) =>
      rows.some(({ folder }) => folder === ROOT_FOLDER) ? undefined : `${ROOT_FOLDER} is missing: it cannot be removed`,
    fill: (ctx, row, current) => ({ ...row, added_at: row.added_at ?? current?.added_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: listVerb(table, 'groups', {
      authorize: requireToolForAgents,
      order: [['folder', 'asc']],
      folder: 'folder',
      when: 'List the groups within your reach.',
      reach: 'work',
      tool: 'refresh_groups',
      tiers: { max: 2, granted: 2 },
      toolReply: ({ groups }) =>
        groups.map(({ folder, name }) => ({
          folder,
          name,
          ...(parentFolderOf(folder) ? { parent: parentFolderOf(folder) } : {}),
        })),
    }),

    /** The folders that the caller administers, with what happened in them today. */
    activity: defineVerb({
      isReadOnly: true,
      input: Paging.extend({
        folder: Folder.optional().describe('Only this folder'),
        parent: Folder.optional().describe('Only folders below this one'),
        search: line(200).optional().describe('A part of the folder or its name'),
      }),
      output: z.object({ folders: z.array(FolderActivity), next: z.string().optional() }),
      authorize: operatorWho(() => true),
      run: async (ctx, { folder, parent, search = '', ...paging }) => {
        const { below, keep: mayAdmin } = await administeredRows<z.output<typeof Group>>(ctx, 'folder')
        const wanted = search.trim().toLowerCase()
        const { rows, next } = await readPage(ctx, table, {
          ...paging,
          ...(folder === undefined ? {} : { where: { folder } }),
          order: [['folder', 'asc']],
          below: parent === undefined ? below : { column: 'folder', paths: [parent] },
          // The store knows only the cases of ASCII letters.
          ...(/^[ -~]+$/.test(wanted) ? { containing: { columns: ['folder', 'name'], text: wanted } } : {}),
          keep: (row) =>
            (mayAdmin?.(row) ?? true) &&
            row.folder !== parent &&
            [row.folder, row.name].some((name) => name.toLowerCase().includes(wanted)),
        })
        const { readFolderActivity } = await import('../core/groups/folder-activity.ts')
        const folders = await readFolderActivity(ctx.tx, rows, ctx.clock.now())
        return { folders, ...(next === undefined ? {} : { next }) }
      },
    }),

    add: defineVerb({
      input: NewGroup,
      output: AddedGroup,
      // A route may take a chat from any other folder.
      authorize: operatorOn(({ folder, jid }) => (jid === undefined ? parentOf(folder) : INSTANCE_SCOPE)),
      run: addOne,
    }),

    /** Like `add`, with the workspace of a new group. */
    create: defineVerb({
      input: NewGroup.omit({ jid: true, move: true }),
      output: AddedGroup,
      authorize: operatorOn(({ folder }) => parentOf(folder)),
      prepare: async ({ host }, { folder, product: name }) => {
        if (await host.engine.read((tx) => table.find(tx, { folder }))) refuseExisting(folder)
        const { bundledProducts, findProduct, isWithoutFiles, setUpFolder } = await import('../core/groups/products.ts')
        const product =
          (await findProduct(bundledProducts, name)) ??
          refuse('not_found', `there is no product ${JSON.stringify(name)}`)
        const isFresh = await isWithoutFiles(layoutOf(host), folder)
        await setUpFolder(layoutOf(host), folder, product)
        return isFresh
      },
      run: async (ctx, input, isFresh) => {
        const result = await addOne(ctx, { ...input, move: false })
        if (!result.added) refuseExisting(input.folder)
        await giveToCreator(ctx, input.folder, isFresh === true && result.inherited === undefined)
        return result
      },
    }),

    /** A preview of `remove`. */
    removal: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: Removal,
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder }) => removalOf(ctx, folder),
    }),

    remove: defineVerb({
      input: Group.pick({ folder: true }).extend({
        purge: z.boolean().default(false).describe('Also remove the rows that would stay; never files'),
      }),
      output: Removal,
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder, purge }) => {
        if (folder === ROOT_FOLDER)
          refuse('forbidden', `${ROOT_FOLDER} is the root of the instance and cannot be removed`)
        const removal = await removalOf(ctx, folder)
        const { is_group, stays } = removal
        if (!is_group && !(purge && stays.length > 0)) refuse('not_found', `there is no group ${folder}`)
        await table.remove(ctx.tx, { folder })
        if (purge) await purgeFolderReferences(ctx.tx, folder)
        return removal
      },
    }),

    show: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: Group,
      authorize: operatorOn(({ folder }) => folder),
      run: (ctx, { folder }) => mustFindGroup(ctx, folder),
    }),

    /** Sets one key of a group, or removes it if `to` is absent. */
    set: defineVerb({
      input: z.object({ folder: Folder, key: z.enum(GROUP_KEYS), to: multilineText(10_000).optional() }),
      output: z.object({ before: z.string().optional(), after: z.string().optional() }),
      authorize: operatorOn(({ folder, key }) => (OWN_SETTINGS.has(key) ? folder : INSTANCE_SCOPE)),
      prepare: async ({ host: { layout } }, { folder, key, to }) => {
        if (key !== 'picture' || !to || !layout) return
        await (await import('../core/groups/identity-files.ts')).mustBePicture(layout, folder, to)
      },
      run: async (ctx, { folder, key, to }) => {
        const group = await mustFindGroup(ctx, folder)
        const { patch, changed } = changeSetting(group, key, to === '' ? undefined : to)
        const [before, after] = [settingOf(group, key), settingOf(changed, key)]
        if (before !== after) await table.update(ctx.tx, { folder }, { ...patch, updated_at: ctx.now })
        return { before, after }
      },
      auditInput: (input, { before, after }) => (before === after ? undefined : input),
    }),

    /** Who the agent is to people. */
    identity: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: ShownIdentity,
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder }) => {
        const { readIdentity } = await import('../core/groups/identity-files.ts')
        const { starters = [], ...identity } = readIdentity(
          ctx.layout,
          await mustFindGroup(ctx, folder),
          ctx.assistantName,
        )
        return { ...identity, starters: [...starters] }
      },
    }),

    /** Its bytes in base64. */
    picture: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: z.object({ type: z.string(), content: z.string() }),
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder }) => {
        const { readIdentity, readPicture } = await import('../core/groups/identity-files.ts')
        const group = await mustFindGroup(ctx, folder)
        const layout = layoutOf(ctx)
        const { picture } = readIdentity(layout, group, ctx.assistantName)
        const found = picture === undefined ? undefined : await readPicture(layout, folder, picture)
        if (!found) return refuse('not_found', `the agent of ${folder} has no picture`)
        return { type: found.type, content: Buffer.from(found.bytes).toString('base64') }
      },
    }),

    /** Writes a picture into the workspace, and makes it that of the agent. Only for the dashboard. */
    upload_picture: defineVerb({
      input: z.object({ folder: Folder, content: base64Bytes(PICTURE_BYTES_MAX) }),
      output: z.object({ picture: z.string() }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder, content }) => {
        await host.engine.read((tx) => mustFindGroup({ tx }, folder))
        const { writePicture } = await import('../core/groups/identity-files.ts')
        return writePicture(layoutOf(host), folder, Buffer.from(content, 'base64'))
      },
      run: async (ctx, { folder }, written) => {
        const picture = String(written)
        const { patch } = changeSetting(await mustFindGroup(ctx, folder), 'picture', picture)
        await table.update(ctx.tx, { folder }, { ...patch, updated_at: ctx.now })
        return { picture }
      },
    }),

    /** The files that people may edit. */
    files: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: z.object({ files: z.array(AgentFileEntry) }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder }) => (await fileAccess()).listAgentFiles(layoutOf(host), folder),
      run: async (ctx, { folder }, files) => {
        await mustFindGroup(ctx, folder)
        // The result of `prepare`.
        return { files: files as AgentFileEntry[] }
      },
    }),

    read_file: defineVerb({
      isReadOnly: true,
      input: z.object({ folder: Folder, name: AgentFileName }),
      output: AgentFile,
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder, name }) => (await fileAccess()).readAgentFile(layoutOf(host), folder, name),
      run: async (ctx, { folder }, file) => {
        await mustFindGroup(ctx, folder)
        // The result of `prepare`.
        return file as AgentFile
      },
    }),

    /** Replaces the named version, and refuses if the file has another one by now. */
    write_file: defineVerb({
      input: z.object({
        folder: Folder,
        name: AgentFileName,
        version: AgentFileVersion.describe('The version that was read; none for a file that did not exist'),
        content: AgentFileText,
      }),
      output: z.object({ version: AgentFileVersion }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder, ...change }) => {
        await host.engine.read((tx) => mustFindGroup({ tx }, folder))
        return (await fileAccess()).writeAgentFile(layoutOf(host), folder, change)
      },
      run: async (_, __, version) => ({ version: String(version) }),
      auditInput: ({ folder, name, content }, { version }) => ({ folder, name, version, content }),
    }),

    skills: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: z.object({ skills: z.array(AgentSkill) }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder }) => {
        const { listAgentSkills } = await import('../core/groups/agent-skills.ts')
        return listAgentSkills(layoutOf(host), folder)
      },
      run: async (ctx, { folder }, skills) => {
        await mustFindGroup(ctx, folder)
        // The result of `prepare`.
        return { skills: skills as AgentSkill[] }
      },
    }),

    /** Deletes the directory of the skill. */
    remove_skill: defineVerb({
      input: z.object({ folder: Folder, skill: SkillName }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder, skill }) => {
        await host.engine.read((tx) => mustFindGroup({ tx }, folder))
        const { removeAgentSkill } = await import('../core/groups/agent-skills.ts')
        await removeAgentSkill(layoutOf(host), folder, skill)
      },
      run: async () => {},
    }),

    set_budget: defineVerb({
      input: z.object({ folder: Folder, daily: DailyCap }),
      // The cap of a folder limits its own administrators, too.
      authorize: operatorOn(({ folder }) => parentOf(folder)),
      run: async (ctx, { folder, daily }) => {
        const patch = { cost_cap_cents_per_day: daily === 0 ? undefined : daily, updated_at: ctx.now }
        if ((await table.update(ctx.tx, { folder }, patch)) === 0) refuse('not_found', `there is no group ${folder}`)
      },
    }),

    budget: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: DailyBudget,
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder }) => {
        await mustFindGroup(ctx, folder)
        return readFolderBudget(ctx.tx, folder, ctx.now)
      },
    }),
  }),
})

async function addOne(
  ctx: Context,
  { folder, name = folderBaseName(folder), move, ...rest }: z.output<typeof NewGroup>,
): Promise<z.output<typeof AddedGroup>> {
  const group = { folder, name, ...rest, isFirst: move, by: creatorOf(ctx.caller) }
  // Loaded on demand: most commands add no group.
  const { addGroup } = await import('../core/groups/new-group.ts')
  const { added, routing, inherited } = await addGroup(ctx.tx, group, ctx)
  return {
    added,
    routed: (routing?.added.length ?? 0) + (routing?.moved.length ?? 0),
    ...(routing?.sharedWith === undefined ? {} : { match: routing.added[0]?.match, shared_with: routing.sharedWith }),
    ...(routing?.inFront.length ? { in_front: [...routing.inFront] } : {}),
    ...(routing?.overtaken.length ? { overtaken: [...routing.overtaken] } : {}),
    ...(inherited.length ? { inherited: [...inherited] } : {}),
  }
}

/**
 * A person who administers the folder above, but none below it, administers the folder that they create; not what an earlier
 * folder of this name has left.
 */
async function giveToCreator(ctx: Context, folder: string, isFresh: boolean): Promise<void> {
  if (ctx.caller.kind !== 'person' || (await canOperate(ctx, folder))) return
  if (!isFresh)
    refuse(
      'conflict',
      `the folder ${folder} existed before, and you do not administer it`,
      'choose another name, or ask an operator',
    )
  await acl.insertIfMissing(ctx.tx, {
    ...{ principal: ctx.caller.sub, action: 'admin', scope: folder, effect: 'allow', params: '', predicate: '' },
    ...{ granted_by: creatorOf(ctx.caller), granted_at: ctx.now },
  })
}

/** Loaded on demand: most commands need no workspaces. */
function fileAccess() {
  return import('../core/groups/agent-files.ts')
}

function refuseExisting(folder: string): never {
  refuse('conflict', `there is a group ${folder} already`)
}

async function removalOf({ tx }: Context, folder: string): Promise<z.output<typeof Removal>> {
  const is_group = (await groups.find(tx, { folder })) !== undefined
  const { ends, stays } = await findReferencesOf(tx, folder)
  // A web host can be bound to a directory without a group, whose removal would end it.
  return is_group ? { is_group, ends, stays } : { is_group, ends: [], stays: [...ends, ...stays] }
}
