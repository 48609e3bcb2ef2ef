// Opens the export of traces if OTEL_EXPORTER_OTLP_ENDPOINT is set. Otherwise nothing of it is loaded.
import { hostname } from 'node:os'
import type { MessageTracer } from '../../core/messages/message-tracer.ts'
import type { Log } from '../../lib/log/log.ts'
import type { SettingSource } from '../../lib/settings.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'
import { packageVersion } from '../../lib/version.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { readTraceSettings } from '../settings.ts'

/** How long the last spans may take when the process stops. */
const CLOSE_MS = 2000

interface Tracing {
  readonly tracer: MessageTracer
  close(): Promise<void>
}

interface TracingOptions<H extends InstanceHost = InstanceHost> {
  readonly host: H
  readonly sources: readonly SettingSource[]
  readonly daemons: readonly string[]
  readonly log: Log
}

/** The host, with a tracer if traces are exported; the last spans are sent after what is closed before. */
export async function withTracing<H extends InstanceHost>(
  options: TracingOptions<H>,
  opened: AsyncDisposableStack,
): Promise<H> {
  const tracing = await openTracing(options)
  if (!tracing) return options.host
  opened.defer(() => tracing.close())
  return { ...options.host, tracer: tracing.tracer }
}

async function openTracing({ host, sources, daemons, log }: TracingOptions): Promise<Tracing | undefined> {
  const settings = readTraceSettings(sources)
  if (!settings) return undefined
  const [{ MessageTracer }, { OtlpExporter }] = await Promise.all([
    import('../../core/messages/message-tracer.ts'),
    import('../../lib/trace/otlp-exporter.ts'),
  ])
  const version = packageVersion()
  const url = `${trimTrailing(settings.OTEL_EXPORTER_OTLP_ENDPOINT ?? '', '/')}/v1/traces`
  const exporter = new OtlpExporter({
    url,
    headers: settings.OTEL_EXPORTER_OTLP_HEADERS ?? {},
    metrics: host.metrics,
    instance: host.instance,
    version,
    resource: {
      'service.name': settings.OTEL_SERVICE_NAME,
      'service.version': version,
      'service.instance.id': `${hostname()}-${process.pid}`,
      'svc.instance': host.instance,
      'svc.daemons': daemons.join(','),
      ...settings.OTEL_RESOURCE_ATTRIBUTES,
    },
    onChange: (fault) =>
      fault === undefined
        ? log.info('traces are exported again')
        : log.warn({ reason: fault }, 'cannot export traces; messages are not affected'),
  })
  return { tracer: new MessageTracer(exporter), close: () => exporter.close(CLOSE_MS) }
}
