// The process of the runtime openai: a turn as JSON on stdin, how it went as JSON on stdout.
import { text } from 'node:stream/consumers'
import type { OpenaiTask } from './task.ts'
import { runOpenaiTask } from './turn.ts'

const task: OpenaiTask = JSON.parse(await text(process.stdin))
process.stdout.write(`${JSON.stringify({ outcome: await runOpenaiTask(task) })}\n`)
