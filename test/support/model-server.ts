// A model server on the port of Ollama, as a program: answers every request with `hello`.
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'

createServer(async (request, response) => {
  await text(request)
  response.setHeader('content-type', 'application/json')
  const models = ['qwen3', 'qwen3:32b'].map((id) => ({ id, object: 'model' }))
  const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }] }
  response.end(JSON.stringify(request.method === 'GET' ? { object: 'list', data: models } : answer))
}).listen(11434, '127.0.0.1')
