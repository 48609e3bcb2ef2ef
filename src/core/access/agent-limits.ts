// Default limits on what agents may create, call and report; settings override them. 0 means no limit, except for costs.

export interface AgentLimits {
  readonly tasksPerFolder: number
  readonly activeTasksPerFolder: number
  /** Minimum interval of a task that repeats by milliseconds, and of runs in a chain of tasks that schedule tasks. */
  readonly taskIntervalMs: number
  /** Below one top-level folder, at any depth. */
  readonly groupsPerFolder: number
  /** Per tool socket, link or account. */
  readonly toolCallsPerSecond: number
  /** The highest cost in dollars that one call of an agent may report. */
  readonly externalCostMaxUsd: number
  /** Stored bytes of one folder. */
  readonly folderQuotaBytes: number
  /** Of one search for messages. */
  readonly searchMs: number
  /** Where operators are asked to approve held calls. */
  readonly approvalChat?: string | undefined
}

export const AGENT_LIMITS: AgentLimits = {
  tasksPerFolder: 1000,
  activeTasksPerFolder: 100,
  taskIntervalMs: 60_000,
  groupsPerFolder: 200,
  toolCallsPerSecond: 100,
  externalCostMaxUsd: 100,
  folderQuotaBytes: 20 * 1024 ** 3,
  searchMs: 5000,
}
