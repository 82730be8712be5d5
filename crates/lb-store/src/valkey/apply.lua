-- Does a batch at once. Everything is checked before anything is changed, so that nothing is ever half done.
--
-- KEYS  every key of the batch
-- ARGV  the number of guards; for each guard the index of its key, the number of values that will do, and those
--       values, none when nothing may be there; then for each step its kind, the index of its key, and its arguments
-- Answers {'done', outcome...}, {'guard', index}, {'order', step, last position} or {'wrong', index of a key, what}.
-- Numbers stay below 2^53: they are doubles here.

local MAX = 9007199254740991
local DAY = 86400000
local at = 0

local function word()
  at = at + 1
  return ARGV[at]
end

local function number()
  return tonumber(word())
end

local function kind(key)
  return redis.call('TYPE', key).ok
end

-- The value of a key, or false; nil when it holds something else.
local function value(key)
  local found = kind(key)
  if found == 'none' then
    return false
  elseif found == 'string' then
    return redis.call('GET', key)
  end
  return nil
end

local function count(text)
  if text == '0' or string.match(text, '^%-?[1-9]%d*$') and #text <= 17 then
    local parsed = tonumber(text)
    if parsed <= MAX and parsed >= -MAX then
      return parsed
    end
  end
  return nil
end

-- The last position of a stream, which outlives its entries; nil when the key holds something else.
local function position(key)
  local found = kind(key)
  if found == 'none' then
    return 0
  elseif found ~= 'stream' then
    return nil
  end
  local facts = redis.call('XINFO', 'STREAM', key)
  for index = 1, #facts, 2 do
    if facts[index] == 'last-generated-id' then
      return tonumber(string.match(facts[index + 1], '^(%d+)'))
    end
  end
  return 0
end

for guard = 1, number() do
  local index, values = number(), number()
  local found = value(KEYS[index])
  if found == nil then
    return {'wrong', index, 'stream'}
  end
  local holds = values == 0 and found == false
  for _ = 1, values do
    holds = word() == found or holds
  end
  if not holds then
    return {'guard', guard - 1}
  end
end

local steps = {}
local reached = {}
local grows = false
while at < #ARGV do
  local step = {what = word(), index = number()}
  step.key = KEYS[step.index]
  local what, key, index = step.what, step.key, step.index
  if what == 'set' then
    step.value, step.ttl = word(), word()
    grows = true
  elseif what == 'take' then
    step.value = value(key)
    if step.value == nil then
      return {'wrong', index, 'stream'}
    end
  elseif what == 'add' then
    local by = word()
    step.by, step.ttl = by, word()
    local found = value(key)
    if found == nil then
      return {'wrong', index, 'stream'}
    end
    local old = 0
    if found then
      old = count(found)
      step.there = true
      if old == nil then
        return {'wrong', index, 'count'}
      end
    end
    step.sum = old + tonumber(by)
    if step.sum > MAX or step.sum < -MAX then
      return {'wrong', index, 'large'}
    end
    grows = true
  elseif what == 'expire' then
    step.token, step.ttl = KEYS[number()], word()
  elseif what == 'append' then
    step.seq, step.entry, step.keep, step.ttl = word(), word(), word(), word()
    local last = reached[key] or position(key)
    if last == nil then
      return {'wrong', index, 'value'}
    elseif tonumber(step.seq) <= last then
      return {'order', #steps, string.format('%.0f', last)}
    end
    reached[key] = tonumber(step.seq)
    grows = true
  elseif what == 'trim' then
    step.before = word()
    if position(key) == nil then
      return {'wrong', index, 'value'}
    end
  elseif what == 'claim' then
    step.token, step.holder, step.ttl = KEYS[number()], word(), word()
    local found = value(key)
    if found == nil then
      return {'wrong', index, 'stream'}
    elseif found then
      step.present = found
      step.last, step.held_by = string.match(found, '^(%d+) (.*)$')
      if step.last == nil then
        return {'wrong', index, 'claim'}
      end
    end
    grows = true
  end
  steps[#steps + 1] = step
end

-- A server that is full, cannot write or is a replica refuses the first command that writes, which does nothing here.
if grows then
  local probe = redis.pcall('SETRANGE', KEYS[1], 0, '')
  if type(probe) == 'table' and probe.err and not string.find(probe.err, 'WRONGTYPE', 1, true) then
    -- Servers before 7 put the line of the script before the error.
    return {err = string.match(probe.err, '%u%u%u+ .*') or probe.err}
  end
end

local function claim(step)
  if step.held_by and step.held_by ~= step.holder then
    return '-' .. step.present
  end
  local last = tonumber(step.last or redis.call('GET', step.token) or 0)
  local time = redis.call('TIME')
  local token = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
  local held = token .. ' ' .. step.holder
  redis.call('SET', step.key, held, 'PX', step.ttl)
  redis.call('SET', step.token, token, 'PX', string.format('%.0f', step.ttl + DAY))
  return '+' .. held
end

local answer = {'done'}
for _, step in ipairs(steps) do
  local what, key = step.what, step.key
  local outcome = 1
  if what == 'set' then
    redis.call('SET', key, step.value, 'PX', step.ttl)
  elseif what == 'delete' then
    outcome = redis.call('DEL', key)
  elseif what == 'take' then
    redis.call('DEL', key)
    outcome = step.value
  elseif what == 'add' then
    outcome = string.format('%.0f', step.sum)
    if step.there then
      redis.call('INCRBY', key, step.by)
    else
      redis.call('SET', key, outcome, 'PX', step.ttl)
    end
  elseif what == 'expire' then
    redis.call('PEXPIRE', step.token, string.format('%.0f', step.ttl + DAY))
    outcome = redis.call('PEXPIRE', key, step.ttl)
  elseif what == 'append' then
    redis.call('XADD', key, 'MAXLEN', '=', step.keep, step.seq .. '-0', 'e', step.entry)
    redis.call('PEXPIRE', key, step.ttl)
  elseif what == 'trim' then
    outcome = redis.call('XTRIM', key, 'MINID', '=', step.before)
  elseif what == 'claim' then
    outcome = claim(step)
  end
  answer[#answer + 1] = outcome
end
return answer
