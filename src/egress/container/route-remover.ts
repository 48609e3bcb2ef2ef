// The program of the container that holds the workload's network namespace, on engines that add a default route there. It removes
// the route before the workload starts, because the workload may not change routes, and runs as long as the workload does.

/** Plain JavaScript for the Node of the proxy's image, which has no program such as `ip`. */
export const ROUTE_REMOVER = `
const ffi = process.getBuiltinModule('node:ffi')
const { readFileSync } = require('node:fs')
const { functions } = ffi.dlopen(null, {
  socket: { arguments: ['int32', 'int32', 'int32'], return: 'int32' },
  ioctl: { arguments: ['int32', 'uint64', 'pointer'], return: 'int32' },
})
const [AF_INET, SOCK_DGRAM, SIOCDELRT, RTF_UP_AND_GATEWAY] = [2, 2, 0x890cn, 3]
const defaultRoutes = () =>
  readFileSync('/proc/net/route', 'utf8')
    .split('\\n')
    .map((line) => line.split('\\t'))
    .filter(([, destination, , , , , , mask]) => destination === '00000000' && mask === '00000000')
const socket = functions.socket(AF_INET, SOCK_DGRAM, 0)
for (const [, , gateway] of defaultRoutes()) {
  // struct rtentry: three addresses of 16 bytes (destination, gateway, mask) from byte 8 on, then the flags.
  const route = Buffer.alloc(120)
  for (const at of [8, 24, 40]) route.writeUInt16LE(AF_INET, at)
  // The kernel shows the address as a number in the order of this machine.
  route.writeUInt32LE(Number.parseInt(gateway, 16), 28)
  route.writeUInt16LE(RTF_UP_AND_GATEWAY, 56)
  functions.ioctl(socket, SIOCDELRT, ffi.getRawPointer(route))
}
if (defaultRoutes().length > 0) {
  console.error('the default route of the private network cannot be removed')
  process.exit(1)
}
console.log('ready')
setInterval(() => {}, 2 ** 30)
`
