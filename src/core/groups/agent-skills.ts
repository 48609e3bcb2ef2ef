// Skills in a workspace: directories below .claude/skills, each with a SKILL.md. Those of packages have a mark.
import { join } from 'node:path'
import { Directory } from '../../lib/files/directory.ts'
import { removeTree } from '../../lib/files/directory-tree.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { frontMatterValue } from '../../lib/text/front-matter.ts'
import type { Layout } from '../layout.ts'
import type { AgentSkill } from './agent-file.ts'
import { PACKAGE_MARK } from './package-skills.ts'
import { openHome, withAgentPaths } from './workspace-home.ts'

const SKILLS_MAX = 200
/** Agents can create any number of entries. */
const NAMES_MAX = 1024
const SKILL_BYTES_MAX = 65_536
const DESCRIPTION_MAX = 500

/** Sorted by name, at most 200. */
export async function listAgentSkills(layout: Layout, folder: string): Promise<AgentSkill[]> {
  await using home = await openHome(layout, folder)
  await using skills = await home?.openPath('.claude/skills')
  if (!skills) return []
  const { entries } = await skills.firstEntries(NAMES_MAX)
  const names = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
  const found = []
  for (const name of names.slice(0, SKILLS_MAX)) found.push({ name, ...(await readSkill(layout, skills, name)) })
  return found
}

/** A skill of an installed package would come back. */
export async function removeAgentSkill(layout: Layout, folder: string, skill: string): Promise<void> {
  await using home = await openHome(layout, folder)
  await using skills = await home?.openPath('.claude/skills')
  if (!home || !skills || (await skills.kindOf(skill)) !== 'directory')
    refuse('not_found', `there is no skill ${skill}`)
  const owner = await packageOf(layout, skills, skill)
  if (owner !== undefined)
    refuse('conflict', `skill ${skill} is part of the package ${owner}`, `remove the package ${owner} instead`)
  await withAgentPaths(home, () => removeTree(skills, skill))
}

/** The installed package with this skill, if this is its copy: agents can write any mark. */
async function packageOf({ packageSkills }: Layout, skills: Directory, name: string): Promise<string | undefined> {
  await using installed = await Directory.open(join(packageSkills, name))
  await using copy = await skills.openDirectory(name)
  const mark = await readText(installed, PACKAGE_MARK)
  const isCopy = mark !== undefined && (await readText(copy, PACKAGE_MARK).catch(ignoreRefusal)) === mark
  return isCopy ? mark.trim() : undefined
}

function ignoreRefusal(error: unknown): undefined {
  if (!(error instanceof Refusal)) throw error
}

async function readSkill(layout: Layout, skills: Directory, name: string): Promise<Omit<AgentSkill, 'name'>> {
  try {
    await using skill = await skills.openDirectory(name)
    const text = await readText(skill, 'SKILL.md')
    const owner = await packageOf(layout, skills, name)
    const description = text === undefined ? undefined : parseDescription(text)
    return {
      ...(description === undefined ? {} : { description }),
      ...(owner ? { package: owner } : {}),
      ...(text === undefined ? { fault: 'it has no SKILL.md' } : {}),
    }
  } catch (error) {
    // Agents can put anything there.
    if (error instanceof Refusal) return { fault: 'its SKILL.md cannot be read' }
    throw error
  }
}

async function readText(directory: Directory | undefined, name: string): Promise<string | undefined> {
  return (await directory?.readFile(name, SKILL_BYTES_MAX))?.data.toString()
}

/** The line `description:` of the front matter. */
export function parseDescription(text: string): string | undefined {
  const { text: description } = frontMatterValue(text, 'description')
  return description === '' ? undefined : description.slice(0, DESCRIPTION_MAX)
}
