// A host that is killed in the middle of an operation and started again: the operation goes on, and its page says how far it is.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { complained, equal, none, open, sound, text, until } from './browser.mjs'
import { api, eventually, given, visit } from './harness.mjs'

const COUNT = 200, FROM = '2099-01-01T00:00:00Z', TO = '2098-01-01T00:00:00Z'
/// Longest wait for a host that starts again, and for what it goes on with. Milliseconds.
const LONG = 120_000

export async function killed() {
  const { base, kill, back } = given.mortal
  const { get, post } = api(base)
  await visit('killed an operation goes on when its host is back', base, '/ui/operations', async (page, of, context) => {
    const messages = Array.from({ length: COUNT }, (_, number) => ({ id: `late-${number}`, topic: 'bus:work.later', payload: 1, not_before: FROM }))
    await post('/v1/messages', { messages })
    const { id } = await post('/v1/operations', { kind: 'reschedule_messages', filter: 'id=late-*', not_before: TO, rate: 20, reason: 'by the test' })
    const address = `/ui/operation?id=${id}`
    await eventually('some of it is done', async () => (await get(`/v1/operations/${id}`)).done > 0)
    await page.goto(base + address, { waitUntil: 'load' })
    const heading = await text(page, 'h1')
    equal((await get(`/v1/operations/${id}`)).state, 'running', 'it is under way')
    writeFileSync(kill, '')
    await eventually('the host is back', async () => existsSync(back), LONG)
    // What was shown stays, and says how old it is. Fifteen seconds pass for the page alone.
    await page.evaluate(() => { const now = Date.now; Date.now = () => now() + 20e3 })
    await until(page, () => document.querySelector('#old').checkVisibility())
    equal(await text(page, 'h1'), heading, 'what was shown')
    // Nobody answers there any more, which the browser writes to its console as long as the page is open.
    await page.goto('about:blank')
    of.complaints.length = 0

    const origin = readFileSync(back, 'utf8')
    const again = api(origin)
    const other = await open(context, origin)
    await other.page.goto(origin + address, { waitUntil: 'load' })
    equal(await text(other.page, 'h1'), heading, 'the same operation')
    await eventually('it is over', async () => (await again.get(`/v1/operations/${id}`)).state !== 'running', LONG)
    equal((await again.get(`/v1/operations/${id}`)).state, 'done', 'how it ended')
    const { items } = await again.get('/v1/messages?filter=id%3Dlate-*&limit=1000')
    equal([items.length, items.filter(message => !message.not_before.startsWith('2098-')).length], [COUNT, 0], 'all are moved')
    await other.page.reload({ waitUntil: 'load' })
    const said = await other.page.$eval('main', e => e.innerText)
    if (!/\bdone\b/.test(said) || said.includes('to go, about')) throw new Error(`its page doesn’t say that it is over: ${said}`)
    await sound(other, 'the operation that went on')
    none(await complained(other), 'it complained')
    await other.page.close()
  })
}
