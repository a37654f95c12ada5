-- Asks Sluice about a request: `http-request lua.sluice`. Sets
--   txn.sluice_status       what Sluice says: 200 is yes, 0 if it says nothing
--   txn.sluice_limit        its RateLimit, RateLimit-Policy and Retry-After, if there are such
--   txn.sluice_policy
--   txn.sluice_retry_after
-- The way leads through HAProxy itself, by the socket in the variable SLUICE_SOCKET: a client of Lua's
-- opens a connection for each request, and waits for seconds where nobody listens.

local SOCKET = os.getenv('SLUICE_SOCKET')
local URL = 'http://sluice/v1/forward-auth'

-- What belongs to the connection or the body, and the headers that `sluice serve --proxy haproxy`
-- reads: those are written here, so that no client can.
local KEPT_BACK = {
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

local function is_kept_back(name)
  return KEPT_BACK[name] or name:find('^x%-forwarded%-') or name:find('^x%-original%-')
end

-- HAProxy 2.6 ends with a segmentation fault if its client is given more than 101 lines.
local MOST_LINES = 80

-- The headers for Sluice; nil if there are too many. The lines of a header count from 0 where they come
-- from, and from 1 where they go.
local function passed_on(headers)
  local passed = {}
  local count = 0
  for name, lines in pairs(headers) do
    if not is_kept_back(name) then
      passed[name] = {}
      for place = 0, #lines do
        table.insert(passed[name], lines[place])
        count = count + 1
      end
    end
  end
  return count <= MOST_LINES and passed or nil
end

local FIELDS = {
  ['txn.sluice_limit'] = 'ratelimit',
  ['txn.sluice_policy'] = 'ratelimit-policy',
  ['txn.sluice_retry_after'] = 'retry-after',
}

-- HAProxy answers with a 5xx of its own for a Sluice that does not answer.
local function status_of(response)
  local status = response.status or 0
  local said = response.headers and response.headers['x-sluice-status']
  if said then
    return tonumber(said[0])
  end
  return status < 500 and status or 0
end

local function ask(txn)
  local headers = passed_on(txn.http:req_get_headers())
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

core.register_action('sluice', { 'http-req' }, ask, 0)
