-- Calls Sluice for a request: `http-request lua.sluice`. Sets
--   txn.sluice_status       HTTP status of the response of Sluice, or 0 if Sluice is unavailable
--   txn.sluice_limit        value of RateLimit, if present
--   txn.sluice_policy       value of RateLimit-Policy, if present
--   txn.sluice_retry_after  value of Retry-After, if present
-- The script sends the call to the `listen sluice` section of HAProxy itself, over the socket in
-- SLUICE_SOCKET. If it called Sluice directly, Lua's HTTP client would open a connection for each
-- request, and wait for seconds if the port is closed.

local SOCKET = os.getenv('SLUICE_SOCKET')
local URL = 'http://sluice/v1/forward-auth'

-- Client headers that the script does not forward to Sluice: headers of the connection or the body,
-- and headers that `sluice serve --proxy haproxy` reads, which the script sets itself.
local NOT_FORWARDED = {
  ['connection'] = true,
  ['content-length'] = true,
  ['expect'] = true,
  ['forwarded'] = true,
  ['host'] = true,
  ['keep-alive'] = true,
  ['te'] = true,
  ['trailer'] = true,
  ['transfer-encoding'] = true,
  ['upgrade'] = true,
}

local function is_not_forwarded(name)
  return NOT_FORWARDED[name] or name:find('^x%-forwarded%-') or name:find('^x%-original%-')
end

-- HAProxy 2.6 crashes if a script passes more than 101 header lines to its HTTP client.
local MAX_LINES = 80

-- Returns the headers for Sluice, or nil if there are too many. HAProxy numbers the lines of a received
-- header from 0, and expects the lines of a header to send from 1.
local function forwarded_headers(headers)
  local forwarded = {}
  local count = 0
  for name, lines in pairs(headers) do
    if not is_not_forwarded(name) then
      forwarded[name] = {}
      for place = 0, #lines do
        table.insert(forwarded[name], lines[place])
        count = count + 1
      end
    end
  end
  return count <= MAX_LINES and forwarded or nil
end

local FIELDS = {
  ['txn.sluice_limit'] = 'ratelimit',
  ['txn.sluice_policy'] = 'ratelimit-policy',
  ['txn.sluice_retry_after'] = 'retry-after',
}

-- Returns the status of Sluice, or 0 if it is unavailable. If Sluice is unavailable, HAProxy itself
-- responds with 5xx, without the header X-Sluice-Status of Sluice.
local function status_of(response)
  local status = response.status or 0
  local reported = response.headers and response.headers['x-sluice-status']
  if reported then
    return tonumber(reported[0])
  end
  return status < 500 and status or 0
end

local function check(txn)
  local headers = forwarded_headers(txn.http:req_get_headers())
  if not headers then
    return txn:set_var('txn.sluice_status', 431)
  end
  headers['x-forwarded-for'] = { txn.f:src() }
  headers['x-forwarded-method'] = { txn.f:method() }
  headers['x-forwarded-uri'] = { txn.f:pathq() }
  headers['x-forwarded-host'] = { txn.f:req_fhdr('host') }
  local response = core.httpclient():head({ url = URL, headers = headers, dst = SOCKET })
  txn:set_var('txn.sluice_status', status_of(response))
  for variable, name in pairs(FIELDS) do
    local lines = response.headers and response.headers[name]
    if lines then
      txn:set_var(variable, lines[0])
    end
  end
end

core.register_action('sluice', { 'http-req' }, check, 0)
