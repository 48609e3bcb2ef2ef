// The process of the demo. It waits for turns: one line of JSON in, one line out, for as long as somebody holds its input.
import { Lines } from '../lines.ts'
import type { Task } from './task.ts'
import { runTask } from './turn.ts'

const lines = new Lines((line) => {
  const task: Task = JSON.parse(line)
  void runTask(task).then((outcome) => process.stdout.write(`${JSON.stringify({ outcome })}\n`))
})
process.stdin.setEncoding('utf8')
process.stdin.on('data', (text: string) => lines.push(text))
process.stdin.on('end', () => process.exit(0))
