-- Script for wrk: posts to each path of a file in turn, with the same body. Arguments: the file, the size of the body.
local requests, at = {}, 0

function init(args)
  local frame = '{"event":"push","payload":"%s"}'
  local body = frame:format(('x'):rep(tonumber(args[2]) - #frame + 2))
  for path in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format('POST', path, { ['Content-Type'] = 'application/json' }, body)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(('{"requests":%d,"micros":%d,"refused":%d,"broken":%d,"p50":%d,"p99":%d}\n'):format(
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
