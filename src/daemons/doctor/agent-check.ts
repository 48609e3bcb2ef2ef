// Reports the user, files and network of agents, and whether this machine supports cells.
import { CELL_SETTINGS } from '../../cell/settings.ts'
import type { Layout } from '../../core/layout.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import type { DoctorFinding } from './findings.ts'

interface AgentCheckOptions {
  readonly layout: Layout
  readonly sources: readonly SettingSource[]
}

export async function checkAgents({ layout, sources }: AgentCheckOptions): Promise<DoctorFinding> {
  const settings = readSettings({ ...CELL_SETTINGS, AGENT_RUNTIME: RUNTIME_SETTINGS.AGENT_RUNTIME }, sources)
  const { describeCells } = await import('../../cell/describe.ts')
  const { openCell } = await import('../../cell/open-cell.ts')
  try {
    const cell = await openCell({ settings, ...layout })
    await cell.close()
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'unavailable') throw error
    // Only the demo runs without a cell.
    const status = settings.AGENT_RUNTIME === 'demo' ? 'note' : 'wrong'
    return { check: 'agents', status, detail: `agents cannot run in cells: ${error.message}`, next: error.hint ?? '' }
  }
  const { user, files, network } = describeCells(settings, layout.agents)
  const detail = `run as ${user}; see ${files}; reach ${network}`
  if (settings.SANDBOX !== 'none' && settings.NETWORK === 'rules') return { check: 'agents', status: 'ok', detail }
  return { check: 'agents', status: 'note', detail, next: 'remove SANDBOX=none and NETWORK=open from .env' }
}
