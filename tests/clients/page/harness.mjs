// What the driver is given, and how a check is made: `ok NAME`, or `not ok NAME: why`, a line each.
import { readFileSync } from 'node:fs'
import { complained, going, launch, none, open, PATIENCE } from './browser.mjs'

export const given = JSON.parse(readFileSync(process.argv[2], 'utf8'))
export const { base, secured } = given
export const browser = await launch(given.chromium, given.profile)

const chosen = new Set(given.checks), others = new Set(given.others)
const failed = (name, e) => console.log(`not ok ${name}: ${String(e.message ?? e).replaceAll('\n', ' ')}`)

/// Makes a check if this run does. One that no list has is a mistake in one of them.
export async function check(name, act) {
  if (others.has(name)) return
  try {
    if (!chosen.has(name)) throw new Error('no list of checks has it')
    await act()
    console.log(`ok ${name}`)
  } catch (e) { failed(name, e) }
}

/// With a context of its own, which is like a browser that was never here.
export async function fresh(act) {
  const context = await browser.createBrowserContext()
  try { return await act(context) } finally { await context.close() }
}

/// A check with a page of its own, which must not complain of anything. `prepare` comes before the page is opened.
export const visit = (name, origin, address, act, prepare = async () => {}) => check(name, () => fresh(async context => {
  await prepare()
  const of = await open(context, origin)
  await of.page.goto(origin + address, { waitUntil: 'load' })
  await act(of.page, of, context)
  none(await complained(of), 'it complained')
}))

/// Signs in at a page that asks for a token.
export async function signIn(page, token) {
  await page.focus('input[name=token]')
  await page.keyboard.type(token)
  await going(page, () => page.keyboard.press('Enter'))
}

/// How long a part of the checks took: a line of its own.
export async function timed(what, act) {
  const began = Date.now()
  await act()
  console.log(`took ${what} ${Math.round((Date.now() - began) / 1000)} s`)
}

/// The API of a host that asks nobody for a token.
export function api(origin) {
  const call = async (path, init) => {
    const answer = await fetch(origin + path, init)
    const said = await answer.text()
    if (!answer.ok) throw new Error(`${path} answers ${answer.status}: ${said}`)
    return said ? JSON.parse(said) : {}
  }
  return {
    get: path => call(path),
    post: (path, body = {}) => call(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  }
}
export const { get, post } = api(base)
/// Asks again until something is so.
export async function eventually(what, condition, patience = PATIENCE) {
  for (const end = Date.now() + patience; Date.now() < end;) {
    if (await condition()) return
    await new Promise(done => setTimeout(done, 50))
  }
  throw new Error(`it never came true that ${what}`)
}
export const send = messages => post('/v1/messages', { messages })
export const isDead = id => eventually(`${id} is dead`, async () => (await get(`/v1/messages/${id}`)).state === 'dead')

/// How often something was done to a thing: acts in the audit trail that somebody asked for, and operations.
export async function done(thing) {
  const isAsked = act => act.actor === 'local' && (act.kind === 'TxReplayRequested' || !act.kind.startsWith('Tx'))
  const acts = (await get('/v1/audit?limit=1000')).items.filter(act => isAsked(act) && act.object.includes(thing))
  return { acts: acts.length, operations: (await get('/v1/operations')).items.length }
}
