import { readdirSync, readFileSync } from 'node:fs'

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

/** Those of them that this process or a child of it started. */
export function processesBelow(ancestor: number | undefined, text: string): string[] {
  return processesWith(text).filter((each) => isBelow(each, ancestor))
}

export function parentOf(pid: string): string {
  // The name of the program is in brackets and may contain blanks.
  return (
    readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) \S /s, '')
      .split(' ')[0] ?? ''
  )
}

function isBelow(pid: string, ancestor: number | undefined): boolean {
  try {
    for (let at = pid; at !== '0' && at !== ''; at = parentOf(at)) if (at === String(ancestor)) return true
  } catch {
    // It has ended.
  }
  return false
}
