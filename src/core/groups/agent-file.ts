// The files that people edit at the dashboard, and skills, as verbs describe them. `agent-files.ts` reads and writes them.
import { z } from 'zod'
import { checkedText, markContent } from '../values.ts'

/** Paths in the workspace, with what each is for. */
export const AGENT_FILES = {
  'PERSONA.md': 'Who the agent is and how it writes',
  'CLAUDE.md': 'Instructions for every turn',
  '.claude/CLAUDE.md': 'How the agent uses its workspace and its memory',
  'AGENTS.md': 'Instructions for agent programs that read this name',
  'SYSTEM.md': 'First part of the system prompt of the runtime openai',
  'MEMORY.md': 'What the agent always remembers; not shown to visitors',
  'work.md': 'What the agent is working on; part of every prompt',
} as const

export const AGENT_FILE_MAX_BYTES = 65_536
/** Version of a file that does not exist. */
export const MISSING_FILE = 'none'

type DescribedFile = keyof typeof AGENT_FILES
export const AGENT_FILE_NAMES = Object.keys(AGENT_FILES) as [DescribedFile, ...DescribedFile[]]

/** A file of the list above, or the text of a skill. */
export const AgentFileName = z.union([
  z.enum(AGENT_FILE_NAMES),
  z.templateLiteral(['.claude/skills/', z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/), '/SKILL.md']),
])
export type AgentFileName = z.output<typeof AgentFileName>

/** The text of a skill; undefined if people cannot edit a skill of this name. */
export function skillFile(skill: string): AgentFileName | undefined {
  return AgentFileName.safeParse(`.claude/skills/${skill}/SKILL.md`).data
}

export const AgentFileText = markContent(
  checkedText((value) => {
    if (Buffer.byteLength(value) > AGENT_FILE_MAX_BYTES) return `must be at most ${AGENT_FILE_MAX_BYTES} bytes`
    return value.includes('\u0000') ? 'must not contain a NUL character' : undefined
  }),
)

export const AgentFileVersion = z
  .string()
  .regex(/^(none|sha256:[0-9a-f]{64})$/, 'must be the version of a file that was read before')

export const AgentFileEntry = z.object({
  name: z.enum(AGENT_FILE_NAMES),
  about: z.string(),
  bytes: z.int().optional().describe('Absent if there is no such file'),
  modified_at: z.string().optional(),
  fault: z.string().optional().describe('Why it cannot be edited'),
})
export type AgentFileEntry = z.output<typeof AgentFileEntry>

export const AgentFile = z.object({
  name: AgentFileName,
  content: z.string(),
  version: AgentFileVersion,
  exists: z.boolean(),
})
export type AgentFile = z.output<typeof AgentFile>

/** The directory of a skill. */
export const SkillName = z.string().regex(/^(?!\.{1,2}$)[^/\p{Cc}]{1,255}$/u, 'must be the name of a directory')

export const AgentSkill = z.object({
  name: z.string(),
  description: z.string().optional(),
  package: z.string().optional().describe('The package that it belongs to'),
  fault: z.string().optional().describe('Why agents cannot use it'),
})
export type AgentSkill = z.output<typeof AgentSkill>
