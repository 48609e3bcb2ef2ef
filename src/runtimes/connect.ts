// ProxyCommand of ssh in a cell: connects stdin and stdout to a host and port through the proxy, with CONNECT.
import { request } from 'node:http'
import { PROXY_PORT } from '../cell/init-perl.ts'

const [host = '', port = ''] = process.argv.slice(2)
const proxyRequest = request({ host: '127.0.0.1', port: PROXY_PORT, method: 'CONNECT', path: `${host}:${port}` })
proxyRequest.on('connect', (response, socket, head) => {
  if (response.statusCode !== 200)
    fail(response.headers['x-proxy-error']?.toString() ?? `status ${response.statusCode}`)
  process.stdout.write(head)
  process.stdin.pipe(socket)
  socket.pipe(process.stdout)
})
proxyRequest.on('response', (response) => fail(`status ${response.statusCode}`))
proxyRequest.on('error', (error) => fail(error.message))
proxyRequest.end()

function fail(reason: string): never {
  process.stderr.write(`cannot connect to ${host}:${port}: ${reason}\n`)
  process.exit(1)
}
