-- Asks Sluice about a request: `http-request lua.sluice`. Sets
--   txn.sluice_status       what Sluice says, 200 for yes; 0 if it does not answer
--   txn.sluice_limit        its RateLimit, RateLimit-Policy and Retry-After, if there are such
--   txn.sluice_policy
--   txn.sluice_retry_after
-- Sluice is at the address in the variable SLUICE of the environment.

local URL = 'http://' .. os.getenv('SLUICE') .. '/v1/forward-auth'
local TIMEOUT_MS = 500

-- What belongs to the connection or the body, and what tells of the request: that is written here,
-- so that no client can.
local NOT_PASSED_ON = {
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

-- Headers of HAProxy are tables that count from 0, those of its client tables that count from 1.
local function passed_on(headers)
  local passed = {}
  for name, values in pairs(headers) do
    if not NOT_PASSED_ON[name] and not name:find('^x%-forwarded%-') and not name:find('^x%-original%-') then
      local list = {}
      for place = 0, #values do list[#list + 1] = values[place] end
      passed[name] = list
    end
  end
  return passed
end

local function first(response, name)
  local values = response.headers and response.headers[name]
  return values and values[0]
end

local function ask(txn)
  local headers = passed_on(txn.http:req_get_headers())
  headers['x-forwarded-for'] = { txn.f:src() }
  headers['x-forwarded-method'] = { txn.f:method() }
  headers['x-forwarded-uri'] = { txn.f:pathq() }
  headers['x-forwarded-host'] = { txn.f:req_fhdr('host') }
  local response = core.httpclient():head({ url = URL, headers = headers, timeout = TIMEOUT_MS })
  txn:set_var('txn.sluice_status', response.status or 0)
  for name, field in pairs({ limit = 'ratelimit', policy = 'ratelimit-policy', retry_after = 'retry-after' }) do
    local value = first(response, field)
    if value then txn:set_var('txn.sluice_' .. name, value) end
  end
end

core.register_action('sluice', { 'http-req' }, ask, 0)
