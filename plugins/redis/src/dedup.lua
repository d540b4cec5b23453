-- Adds a message to a stream unless its id was added before. The id is remembered after the message is in: whatever goes wrong in
-- between, a message may come twice and is never lost. KEYS: the stream, the id's key. ARGV: milliseconds, arguments of XADD.
local known = redis.call('GET', KEYS[2])
if known then return {known} end
local entry = redis.pcall('XADD', KEYS[1], unpack(ARGV, 2))
if type(entry) == 'string' then
  local kept = redis.pcall('SET', KEYS[2], entry, 'PX', ARGV[1])
  if kept.err then return {entry, kept.err} end
end
return entry
