// Settings of `run`, from the environment only.
import { z } from 'zod'
import { type Settings, setting } from '../../lib/settings.ts'
import { readSubnet } from '../container/subnet.ts'

/** Nothing that the engine would read as a flag. */
export const ImageName = z.string().regex(/^[A-Za-z0-9][\w.:/@-]*$/, { error: 'must be the name of an image' })

const NetworkName = z.string().regex(/^[A-Za-z0-9][\w.-]*$/, { error: 'must be the name of a network' })

const Block = z.string().transform((text, ctx) => {
  const subnet = readSubnet(text)
  if (subnet) return subnet
  ctx.addIssue({ code: 'custom', message: 'must be an IPv4 block from /8 to /29 such as 10.88.0.0/16' })
  return z.NEVER
})

export const RUN_SETTINGS = {
  EGRESS_IMAGE: setting(ImageName, 'egress-proxy:latest', 'image of the proxy, and of the workload without --image'),
  EGRESS_SUBNET: setting(Block, undefined, 'subnet of the private network of a run; by default the first free one'),
  EGRESS_NETWORK: setting(
    NetworkName,
    undefined,
    "network through which the proxy reaches the world; by default the engine's own",
  ),
}

export type RunSettings = Settings<typeof RUN_SETTINGS>
