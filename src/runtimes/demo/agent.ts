// The process of the demo. It waits for turns: one line of JSON in, one line out, for as long as somebody holds its input.
import { refuse } from '../../lib/refusal.ts'
import { Lines } from '../lines.ts'
import type { Task } from './task.ts'
import { runTask } from './turn.ts'

becomeUser(process.argv[2])

const lines = new Lines((line) => {
  const task: Task = JSON.parse(line)
  void runTask(task).then((outcome) => process.stdout.write(`${JSON.stringify({ outcome })}\n`))
})
process.stdin.setEncoding('utf8')
process.stdin.on('data', (text: string) => lines.push(text))
process.stdin.on('end', () => process.exit(0))

/** Gives up being root, for good. */
function becomeUser(uid: string | undefined): void {
  if (uid === undefined) return
  process.setgroups?.([])
  process.setgid?.(Number(uid))
  process.setuid?.(Number(uid))
  if (process.getuid?.() === 0) refuse('forbidden', 'the demo must not run as root')
}
