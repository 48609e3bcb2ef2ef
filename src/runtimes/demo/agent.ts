// The process of the demo: runs one task per line of JSON on stdin and prints one line each, until stdin is closed.
import { flushCompileCache } from 'node:module'
import { refuse } from '../../lib/refusal.ts'
import { TextLineSplitter } from '../text-line-splitter.ts'
import type { DemoTask } from './task.ts'
import { runDemoTask } from './turn.ts'

becomeUser(process.argv[2], process.argv[3])

const lines = new TextLineSplitter((line) => {
  const task: DemoTask = JSON.parse(line)
  void runDemoTask(task).then((outcome) => process.stdout.write(`${JSON.stringify({ outcome })}\n`))
})
process.stdin.setEncoding('utf8')
process.stdin.on('data', (text: string) => lines.push(text))
process.stdin.on('end', () => process.exit(0))

/** Drops root privileges permanently. */
function becomeUser(uid: string | undefined, gid: string | undefined): void {
  if (uid === undefined) return
  // Before the switch: only the user of svc can write the cache.
  flushCompileCache()
  process.setgroups?.([])
  process.setgid?.(Number(gid))
  process.setuid?.(Number(uid))
  if (process.getuid?.() === 0) refuse('forbidden', 'the demo must not run as root')
}
