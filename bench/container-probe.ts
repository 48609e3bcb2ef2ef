// Child process in the network of a container engine: prints `up` when `count` containers of a project answer over HTTP.
//   container-probe.ts <socket of the engine> <project> <count>
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'

const POLL_MS = 20
const PORTS = [8080, 3128]

const [socketPath = '', project = '', count = '0'] = process.argv.slice(2)

interface Listed {
  readonly Id: string
  readonly NetworkSettings: { readonly Networks: Readonly<Record<string, { readonly IPAddress: string }>> }
}

async function list(): Promise<Listed[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [`com.docker.compose.project=${project}`] }))
  const response = await new Promise<NodeJS.ReadableStream>((resolve, reject) => {
    request({ socketPath, path: `/containers/json?filters=${filters}` }, resolve)
      .on('error', reject)
      .end()
  })
  return JSON.parse(await text(response))
}

/** egress-proxy refuses the path, and that shows that it works. */
async function answers({ NetworkSettings }: Listed): Promise<boolean> {
  const addresses = Object.values(NetworkSettings.Networks).flatMap(({ IPAddress }) => IPAddress || [])
  const tries = addresses.flatMap((address) => PORTS.map((port) => fetch(`http://${address}:${port}/health`)))
  const answered = await Promise.any(tries.map(async (each) => (await each).status < 500)).catch(() => false)
  return answered
}

const up = new Set<string>()
while (up.size < Number(count)) {
  const waiting = (await list()).filter(({ Id }) => !up.has(Id))
  await Promise.all(
    waiting.map(async (each) => {
      if (await answers(each)) up.add(each.Id)
    }),
  )
  await pause(POLL_MS)
}
console.log('up')
process.exit()
