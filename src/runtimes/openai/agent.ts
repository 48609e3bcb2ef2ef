// The process of the runtime openai: reads its task as JSON from stdin and prints the outcome as JSON.
import { text } from 'node:stream/consumers'
import type { OpenaiTask } from './task.ts'
import { runOpenaiTask } from './turn.ts'

const task: OpenaiTask = JSON.parse(await text(process.stdin))
process.stdout.write(`${JSON.stringify({ outcome: await runOpenaiTask(task) })}\n`)
