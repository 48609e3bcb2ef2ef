import { readdirSync, readFileSync } from 'node:fs'

/** At any depth. */
function isProcessBelow(pid: string, ancestor: number | undefined): boolean {
  try {
    for (let at = pid; at !== '0' && at !== ''; at = parentOf(at)) if (at === String(ancestor)) return true
  } catch {
    // It has ended.
  }
  return false
}

export function parentOf(pid: string): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The name of the program is in brackets and may contain blanks.
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? ''
}

/** Processes of the machine with this text on their command line. */
export function processesWith(text: string): string[] {
  return readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text)
    } catch {
      return false
    }
  })
}

/** The adapters that a process of svc has started. */
export function adaptersBelow(pid: number | undefined): string[] {
  return processesWith('src/channels/process/main.ts').filter((each) => isProcessBelow(each, pid))
}
