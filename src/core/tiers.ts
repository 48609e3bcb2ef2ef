// Where a folder stands: its tier, its world, whom it reaches, and what the specification gives each tier.

export type Tier = 0 | 1 | 2 | 3

/** The root folder: tier 0, and for reach the ancestor of every other (decisions A1, A9). */
export const ROOT = 'main'

/** Decision A1: only the root is 0, so that a new top-level folder is not an operator by its place alone. */
export function tierOf(folder: string): Tier {
  if (folder === ROOT) return 0
  const slashes = folder.split('/').length - 1
  if (slashes <= 1) return 1
  return slashes === 2 ? 2 : 3
}

export function worldOf(folder: string): string {
  return folder.split('/', 1)[0] ?? folder
}

export function nameOf(folder: string): string {
  return folder.slice(folder.lastIndexOf('/') + 1)
}

/** By the path alone; a top-level folder has none. */
export function parentOf(folder: string): string | undefined {
  const slash = folder.lastIndexOf('/')
  return slash < 0 ? undefined : folder.slice(0, slash)
}

/** From the world down to the folder itself: `a/b` gives `a`, `a/b`. */
export function ancestry(folder: string): string[] {
  const folders: string[] = []
  for (let slash = folder.indexOf('/'); slash >= 0; slash = folder.indexOf('/', slash + 1)) {
    folders.push(folder.slice(0, slash))
  }
  return [...folders, folder]
}

/** Equal or below, by the path alone: `team` holds `team/a` but not `teams`. */
export function contains(ancestor: string, folder: string): boolean {
  return folder === ancestor || folder.startsWith(`${ancestor}/`)
}

/** Decisions A5 and A9: the root reaches every folder, any other its own subtree. */
export function reaches(from: string, to: string): boolean {
  return from === ROOT || contains(from, to)
}

// One list for each table of document 001, section 4.1, in its order.
const SENDING = [
  'post',
  'reply',
  'send',
  'send_file',
  'send_voice',
  'delete',
  'dislike',
  'edit',
  'forward',
  'like',
  'quote',
  'repost',
  'pin_message',
  'unpin_message',
  'unpin_all',
] as const
const HISTORY = [
  'fetch_history',
  'get_thread',
  'inspect_messages',
  'find_messages',
  'inspect_routing',
  'inspect_session',
  'inspect_tasks',
  'inspect_identity',
] as const
const GROUPS = [
  'delegate_group',
  'escalate_group',
  'refresh_groups',
  'register_group',
  'set_group_open',
  'set_observe_window',
  'get_work',
  'set_work',
  'inject_message',
  'fork_topic',
  'pane_set_prompts',
  'pane_set_title',
  'engage',
  'disengage',
  'reset_session',
] as const
const TASKS = ['schedule_task', 'list_tasks', 'pause_task', 'resume_task', 'cancel_task'] as const
const ROUTES = [
  'add_route',
  'delete_route',
  'list_routes',
  'set_routes',
  'list_acl',
  'invite_create',
  'list_web_routes',
  'set_web_route',
  'del_web_route',
  'get_web_host',
  'set_web_host',
] as const
const COST = ['log_external_cost'] as const
const DOCUMENT_001 = [...SENDING, ...HISTORY, ...GROUPS, ...TASKS, ...ROUTES, ...COST]
// Of document 000: no bracket, and in nobody's defaults but the root's `*` (decision A3).
const ROUTE_TOKENS = ['issue_chat_link', 'issue_webhook', 'list_route_tokens', 'revoke_route_token'] as const

/** The tier column, where it says anything but "all". */
const HIGHEST: Partial<Record<(typeof DOCUMENT_001)[number], 0 | 1 | 2>> = {
  post: 2,
  delegate_group: 1,
  escalate_group: 1,
  refresh_groups: 2,
  register_group: 1,
  set_group_open: 1,
  set_work: 2,
  schedule_task: 1,
  list_tasks: 1,
  pause_task: 1,
  resume_task: 1,
  cancel_task: 1,
  add_route: 1,
  delete_route: 1,
  list_routes: 1,
  set_routes: 1,
  list_acl: 1,
  invite_create: 1,
  get_web_host: 1,
  set_web_host: 0,
}

export interface Bracket {
  /** The highest tier that may have the tool; without it, any. */
  readonly highest?: 0 | 1 | 2
}

/** Every tool that the specification names. */
export const TOOL_BRACKETS: Readonly<Record<string, Bracket>> = Object.fromEntries([
  ...DOCUMENT_001.map((tool) => [tool, bracket(HIGHEST[tool])] as const),
  ...ROUTE_TOKENS.map((tool) => [tool, bracket(undefined)] as const),
])

function bracket(highest: 0 | 1 | 2 | undefined): Bracket {
  return highest === undefined ? {} : { highest }
}

/** Why a folder of this tier can never have the tool, whatever its rules say; nothing when the bracket admits it. */
export function bracketFault(tool: string, tier: Tier): string | undefined {
  // Own members only: a tool that the specification does not name has no bracket, even one called `constructor`.
  const highest = Object.hasOwn(TOOL_BRACKETS, tool) ? TOOL_BRACKETS[tool]?.highest : undefined
  if (highest === undefined || tier <= highest) return undefined
  return `the tool ${tool} is for ${highest === 0 ? 'tier 0 only' : `tiers 0 to ${highest}`}`
}

const DEFAULTS: Readonly<Record<Tier, readonly string[]>> = {
  0: ['*'],
  1: DOCUMENT_001.filter((tool) => (HIGHEST[tool] ?? 3) >= 1 && tool !== 'list_routes'),
  2: [
    ...SENDING,
    ...HISTORY,
    ...(['fork_topic', 'engage', 'disengage', 'get_work', 'set_work', 'refresh_groups'] as const),
    ...(['list_web_routes', 'set_web_route', 'del_web_route'] as const),
    ...COST,
  ],
  3: ['reply', 'send_file', 'like', 'edit'],
}

/** Decision A3, in the rule grammar. They hold within the folder's reach (decision A5). */
export function defaultRules(tier: Tier): readonly string[] {
  return DEFAULTS[tier]
}
