// The process of the runtime openai: a turn as JSON on stdin, how it went as JSON on stdout.
import { text } from 'node:stream/consumers'
import type { Task } from './task.ts'
import { runTask } from './turn.ts'

const task: Task = JSON.parse(await text(process.stdin))
process.stdout.write(`${JSON.stringify({ outcome: await runTask(task) })}\n`)
