-- Script for wrk: requests each path of a file in turn, POSTs all with the same body. Arguments: the file, the method, the size
-- of the body.
local requests, at = {}, 0

function init(args)
  local frame = '{"event":"push","payload":"%s"}'
  for path in io.lines(args[1]) do
    if args[2] == 'GET' then
      requests[#requests + 1] = wrk.format('GET', path)
    else
      local body = frame:format(('x'):rep(tonumber(args[3]) - #frame + 2))
      requests[#requests + 1] = wrk.format('POST', path, { ['Content-Type'] = 'application/json' }, body)
    end
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
