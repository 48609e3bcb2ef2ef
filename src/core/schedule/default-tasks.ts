// Tasks that every new group gets: they compact its memory at night. See docs/decisions.md#default-tasks.

interface DefaultTask {
  readonly id: string
  readonly owner: string
  readonly chat_jid: string
  readonly prompt: string
  readonly cron: string
  readonly context_mode: 'isolated'
}

// The prompts call the skill `compact-memories` of products/assistant; the numbers in the ids follow this order.
const COMPACTIONS = [
  ['/compact-memories episodes day', '0 2 * * *'],
  ['/compact-memories episodes week', '0 3 * * 1'],
  ['/compact-memories episodes month', '0 4 1 * *'],
  ['/compact-memories diary week', '0 3 * * 1'],
  ['/compact-memories diary month', '0 4 1 * *'],
] as const

/** Without `next_run`: the caller sets the next slot of `cron`, so none fires immediately. */
export function defaultTasks(folder: string): DefaultTask[] {
  return COMPACTIONS.map(([prompt, cron], number) => ({
    id: `${folder}-mem-${number}`,
    owner: folder,
    chat_jid: folder,
    prompt,
    cron,
    context_mode: 'isolated',
  }))
}
