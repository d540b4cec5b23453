// Each act by keyboard alone: from the view that offers it over its plan to what it came to; and that going back and reloading there
// repeat nothing. Each has a thing of its own, `act-NAME`, that `prepare` makes.
import { equal, expectRefusal, going, path, skipToMain, sound, tabTo, text } from './browser.mjs'
import { base, done, eventually, get, given, isDead, post, send, visit } from './harness.mjs'

const WHY = 'by the test'
/// A key that is pressed instead of a text that is typed.
const press = (...keys) => ({ keys })

const message = id => `/ui/message?tenant=default&id=${id}`
const saga = id => `/ui/saga?tenant=default&id=${id}`
const dead = async id => { await send([{ id, topic: given.refuses, payload: 1 }]); await isDead(id) }
const scheduled = id => send([{ id, topic: 'bus:work.later', payload: 1, not_before: '2099-01-01T00:00:00Z' }])
/// A saga that has come so far.
const begun = (definition, isThere) => async id => {
  await post('/v1/sagas', { definition, id, input: {} })
  await eventually(`saga ${id} is where it is acted on`, async () => isThere(await get(`/v1/sagas/${id}`)))
}
const asking = begun('asks', saga => saga.waiting_for === 'approval')
const listening = begun('listens', saga => saga.waiting_for?.startsWith('signal'))
const stuck = begun('stuck', saga => saga.state === 'failed')
const paused = async id => { await asking(id); await post(`/v1/sagas/${id}/pause`); await eventually(`${id} is paused`, async () => (await get(`/v1/sagas/${id}`)).state === 'paused') }
/// One that takes a minute.
const operation = async () => {
  await send(Array.from({ length: 60 }, (_, number) => ({ id: `slow-${number}`, topic: 'bus:work.later', payload: 1, not_before: '2099-01-01T00:00:00Z' })))
  return (await post('/v1/operations', { kind: 'reschedule_messages', filter: 'id=slow-*', not_before: '2098-01-01T00:00:00Z', rate: 1, reason: WHY })).id
}
const appended = async stream => { await post(`/v1/streams/${stream}/events`, { events: [{ event_id: `${stream}-1`, resource_type: 'TASK', resource_id: 't-1', op: 'UPDATE', schema_version: 1 }] }) }

/// What is written first has a form before its plan.
const written = act => ({ isWritten: true, ...act })

/// By their names: `from` is where it begins, a plan by itself where nothing offers it now; `of` a thing that has another name; `fields` are
/// in the order in which Tab meets them; `to` is where it leads; `undo` is the heading of what takes it back.
const ACTS = {
  'dead-replay': { prepare: dead, from: message, fields: { reason: WHY } },
  'dead-quarantine': { prepare: dead, from: message, fields: { reason: WHY }, undo: 'Put back' },
  'dead-purge': { prepare: dead, from: message, fields: { reason: WHY, typed: '1' }, to: '/ui/operation' },
  'message-cancel': { prepare: scheduled, from: message, fields: { reason: WHY } },
  'message-reschedule': { prepare: scheduled, from: message, fields: { at: '2097-01-01T00:00:00Z', reason: WHY } },
  'transport-pause': { of: 'nowhere', from: () => '/ui', fields: { reason: WHY }, undo: 'Resumed' },
  'transport-resume': { of: 'nowhere', prepare: () => post('/v1/transports/nowhere/pause'), from: () => '/ui', fields: { reason: WHY } },
  'transport-probe': { of: 'nowhere', from: () => '/ui/plan?act=transport-probe&id=nowhere' },
  'saga-pause': { prepare: asking, from: saga, fields: { reason: WHY }, undo: 'Resumed' },
  'saga-resume': { prepare: paused, from: saga, fields: { reason: WHY } },
  'saga-cancel': { prepare: asking, from: saga, fields: { reason: WHY } },
  'saga-retry': { prepare: stuck, from: saga, fields: { reason: WHY } },
  'saga-skip': { prepare: stuck, from: saga, fields: { reason: WHY } },
  'saga-accept': { prepare: stuck, from: saga, fields: { reason: WHY } },
  'saga-kill': { prepare: asking, from: saga, fields: { reason: WHY, typed: 'act-saga-kill' } },
  'saga-signal': { prepare: listening, from: saga, fields: { signal: 'paid', data: '{"n":1}' } },
  'saga-approve': { prepare: asking, from: saga, fields: { reason: WHY } },
  'saga-reject': { prepare: asking, from: saga, fields: { reason: WHY } },
  'plugin-reload': { of: 'nowhere', from: () => '/ui/plugins', fields: { force: press('Space') } },
  'plugin-rollback': { of: 'nowhere', prepare: () => post('/v1/plugins/nowhere/reload', { force: true }), from: () => '/ui/plugins', fields: { reason: WHY } },
  'source-pause': { of: 'orders', from: () => '/ui/inbox', fields: { reason: WHY }, undo: 'Resumed' },
  'source-resume': { of: 'orders', prepare: () => post('/v1/sources/orders/pause'), from: () => '/ui/inbox', fields: { reason: WHY } },
  // The source has no table: the plan comes again and says so.
  'rows-replay': { of: 'orders', from: () => '/ui/plan?act=rows-replay&id=orders', fields: { rows: '17', reason: WHY }, to: '/ui/plan' },
  'relay-pause': { of: 'copies', from: () => '/ui/streams', fields: { reason: WHY }, undo: 'Resumed' },
  'relay-resume': { of: 'copies', prepare: () => post('/v1/relays/copies/pause'), from: () => '/ui/streams', fields: { reason: WHY } },
  'relay-seek': { of: 'copies', from: () => '/ui/streams', fields: { stream: 'task.node.7', to: press('ArrowDown', 'ArrowDown'), reason: WHY } },
  'stream-purge': { prepare: appended, from: id => `/ui/stream?tenant=default&name=${id}`, fields: { reason: WHY, typed: 'act-stream-purge' } },
  'key-release': { prepare: id => post('/v1/idempotency/begin', { key: id, hash: 'a1' }), from: id => `/ui/idempotency?tenant=default&key=${id}`, fields: { reason: WHY } },
  'operation-cancel': { prepare: operation, from: id => `/ui/operation?id=${id}`, to: '/ui/operation' },
  'dead-edit': written({ prepare: dead, from: message, fields: { key: 'edited', reason: WHY }, to: '/ui/message' }),
  'message-send': written({ of: '', from: () => '/ui/messages', fields: { topic: 'bus:work.wait', id: 'act-message-send', payload: '1' }, to: '/ui/message' }),
  'saga-start': written({ of: '', from: () => '/ui/sagas', fields: { definition: 'asks', id: 'act-saga-start', input: '{}' }, to: '/ui/saga' }),
  'stream-append': written({ of: '', from: () => '/ui/streams', fields: { stream: 'act-stream-append', resource: 'TASK/t-1', data: '{}' }, to: '/ui/stream' }),
  'configuration-reload': { of: '', from: () => '/ui/configuration' },
}

async function fill(page, fields) {
  for (const [name, value] of Object.entries(fields)) {
    await tabTo(page, `form.plan [name="${name}"]`)
    if (value.keys) for (const key of value.keys) await page.keyboard.press(key)
    else await page.keyboard.type(value)
  }
  const written = await page.$eval('form.plan', form => Object.fromEntries(new FormData(form)))
  for (const [name, value] of Object.entries(fields)) if (!written[name] || !value.keys && written[name] !== value) throw new Error(`${name} is ${written[name]}`)
}

/// What an act on many comes to is there when it is over.
const over = async page => {
  const id = new URL(page.url()).searchParams.get('id')
  await eventually(`operation ${id} is over`, async () => (await get(`/v1/operations/${id}`)).state !== 'running')
}

const around = async page => { for (const move of ['reload', 'goBack', 'goForward']) await page[move]({ waitUntil: 'load' }) }

/// Reload, back and forward around what an act came to.
async function goAround(page, of, thing, to) {
  if (to === '/ui/operation') await over(page)
  const before = await done(thing)
  await around(page)
  equal(new URL(page.url()).pathname, to, 'where one comes back to')
  equal(await done(thing), before, 'what was done after reload, back and forward')
  // The plan of what is gone may say so.
  expectRefusal(of)
}

async function byKeyboard(page, of, act, thing, { of: named, from, fields = {}, to = '/ui/answer', isWritten }) {
  if (!from(thing).startsWith('/ui/plan')) {
    await skipToMain(page)
    // A list offers it for each of its rows.
    await tabTo(page, `main a[href*="act=${act}"]${named ? `[href*="id=${named}"]` : ''}`)
    await going(page, () => page.keyboard.press('Enter'))
  }
  const { pathname, searchParams } = new URL(page.url())
  equal([pathname, searchParams.get('act')], ['/ui/plan', act], 'the plan comes first')
  await sound(of, 'the plan')
  await skipToMain(page)
  await fill(page, fields)
  if (isWritten) {
    await tabTo(page, 'form.plan > footer button')
    await going(page, () => page.keyboard.press('Enter'))
    const plan = path(page)
    if (!/^\/ui\/plan\?.*draft=/.test(plan)) throw new Error(`${plan} is no plan of what is written`)
    await around(page)
    equal([path(page), await page.$$eval('form.plan textarea', all => all.length)], [plan, 0], 'the plan after reload, back and forward')
    await sound(of, 'the plan of what is written')
    await skipToMain(page)
  }
  await tabTo(page, 'form.plan > footer button')
  await going(page, () => page.keyboard.press('Enter'))
  equal(new URL(page.url()).pathname, to, 'where it leads')
  if (to !== '/ui/plan') return
  expectRefusal(of)
  const said = await page.$eval('main', e => e.innerText)
  if (!said.includes('Nothing was done')) throw new Error(`it isn’t said that nothing was done: ${said}`)
}

/// What takes it back is a press away from what it came to.
async function undo(page, heading) {
  await skipToMain(page)
  await tabTo(page, '.note form button')
  await going(page, () => page.keyboard.press('Enter'))
  equal(await text(page, 'h1'), heading, 'what the press came to')
}

export async function acts() {
  for (const [act, how] of Object.entries(ACTS)) {
    // Where it begins is known when its thing is there: until then the page is one that shows nothing.
    await visit(`act ${act}`, base, '/ui/sign-in', async (page, of) => {
      const name = how.of ?? `act-${act}`
      const made = await how.prepare?.(name)
      const thing = typeof made === 'string' ? made : name
      await page.goto(base + how.from(thing), { waitUntil: 'load' })
      const before = await done(thing)
      await byKeyboard(page, of, act, thing, how)
      await sound(of, 'what it came to')
      if (how.to === '/ui/plan') return equal(await done(thing), before, 'what was done')
      await goAround(page, of, thing, how.to ?? '/ui/answer')
      if (how.undo) await undo(page, how.undo)
    })
  }
}
