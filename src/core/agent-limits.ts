// How much agents may make and ask; the instance's settings say other numbers. 0 is no limit.

export interface AgentLimits {
  readonly tasksPerFolder: number
  readonly activeTasksPerFolder: number
  /** Between two runs of a task that has an interval. */
  readonly taskIntervalMs: number
  /** Below one top-level folder, at any depth. */
  readonly groupsPerFolder: number
  /** Through one tool socket, one link or one account. */
  readonly toolCallsPerSecond: number
}

export const AGENT_LIMITS: AgentLimits = {
  tasksPerFolder: 1000,
  activeTasksPerFolder: 100,
  taskIntervalMs: 60_000,
  groupsPerFolder: 200,
  toolCallsPerSecond: 100,
}
