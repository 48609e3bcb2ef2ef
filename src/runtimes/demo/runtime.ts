// The runtime that needs nothing: it answers each message, so that everything around an agent can be tried and tested.
import { setTimeout as pause } from 'node:timers/promises'
import { textOf } from '../../core/messages.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Runtime, Turn } from '../runtime.ts'
import { readScript, type Step } from './script.ts'

const SHOWN = 400

export const demo: Runtime = {
  name: 'demo',
  run: async (turn) => {
    const text = turn.messages.map(({ content }) => textOf(content)).join('\n')
    const script = readScript(text)
    if (typeof script === 'string') refuse('invalid', script)
    await perform(turn, script ?? answer(turn, text))
  },
}

/** What an earlier try has said is not said again. */
async function perform(turn: Turn, steps: readonly Step[]): Promise<void> {
  let { said } = turn
  for (const step of steps) {
    turn.signal.throwIfAborted()
    if (step.do === 'fail') refuse('unavailable', step.text)
    else if (step.do === 'wait') await pause(step.ms, undefined, { signal: turn.signal })
    else if (said > 0) said--
    else await turn.say(step.do === 'say' ? 'message' : 'status', step.text)
  }
}

function answer({ folder, messages }: Turn, text: string): readonly Step[] {
  const quoted = [...text].length > SHOWN ? `${[...text].slice(0, SHOWN).join('')} …` : text
  const from = messages.at(-1)?.sender ?? 'you'
  const size = messages.reduce((sum, { content }) => sum + content.byteLength, 0)
  return [
    { do: 'status', text: 'Reading your message' },
    {
      do: 'say',
      text: [
        `This is the demo of \`${folder}\`: no model is set up, so I can only tell what arrived.`,
        '',
        `> ${quoted.split('\n').join('\n> ')}`,
        '',
        `That was ${size} ${size === 1 ? 'byte' : 'bytes'} from \`${from}\`, recorded before it was acknowledged.`,
        'Send lines such as `/status thinking`, `/wait 1s`, `/say hello`, `/count 3` or `/fail no` and I do what they say.',
      ].join('\n'),
    },
  ]
}
