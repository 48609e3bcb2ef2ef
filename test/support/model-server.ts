// A model server on the port of Ollama, as a program: answers every request with `hello`.
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'

const MODELS = ['qwen3', 'qwen3:32b'].map((id) => ({ id, object: 'model' }))

createServer(async (request, response) => {
  const isStream = /"stream":\s*true/.test(await text(request))
  const choice = { index: 0, finish_reason: 'stop' }
  const said = { role: 'assistant', content: 'hello' }
  if (isStream) {
    response.setHeader('content-type', 'text/event-stream')
    response.end(`data: ${JSON.stringify({ choices: [{ ...choice, delta: said }] })}\n\ndata: [DONE]\n\n`)
    return
  }
  response.setHeader('content-type', 'application/json')
  const answer = { choices: [{ ...choice, message: said }] }
  response.end(JSON.stringify(request.method === 'GET' ? { object: 'list', data: MODELS } : answer))
}).listen(11434, '127.0.0.1')
