// What is done once however often it is asked for; a set that grew; and the ways back.
import { equal, expectRefusal, going, path, skipToMain, sound, tabTo, text, until } from './browser.mjs'
import { base, done, get, isDead, send, visit } from './harness.mjs'

const planOf = id => `/ui/plan?act=dead-replay&tenant=default&id=${id}`
const isThere = id => () => isDead(id)
/// How often it was put back: as the message says, and as the audit trail does.
const putBack = async id => [(await get(`/v1/messages/${id}`)).replays, (await done(id)).acts]
const isAnswer = page => until(page, () => location.pathname === '/ui/answer' && document.readyState === 'complete')
const scheduled = ids => send(ids.map(id => ({ id, topic: 'bus:work.later', payload: 1, not_before: '2099-01-01T00:00:00Z' })))
/// To the button of a plan, by keys.
async function toButton(page) {
  await skipToMain(page)
  await tabTo(page, 'form.plan > footer button')
}

export async function once() {
  await visit('once two requests with one form are one act', base, planOf('dead-1'), async page => {
    const sent = await page.evaluate(async () => {
      const form = document.querySelector('main form[method=post]')
      const body = new URLSearchParams(new FormData(form))
      const send = () => fetch(form.action, { method: 'POST', body, redirect: 'manual' })
      return (await Promise.all([send(), send()])).map(answer => answer.type)
    })
    equal(sent, ['opaqueredirect', 'opaqueredirect'], 'both are answered as one')
    equal(await putBack('dead-1'), [1, 1], 'it was put back once')
  }, isThere('dead-1'))
  await visit('once a key that is pressed twice is one act', base, planOf('dead-2'), async page => {
    await toButton(page)
    for (const key of ['Enter', 'Enter']) await page.keyboard.press(key)
    await isAnswer(page)
    equal(await putBack('dead-2'), [1, 1], 'it was put back once')
  }, isThere('dead-2'))
  await visit('once a button that is clicked twice is one act', base, planOf('dead-4'), async page => {
    await page.click('form.plan > footer button', { count: 2 })
    await isAnswer(page)
    equal(await putBack('dead-4'), [1, 1], 'it was put back once')
  }, isThere('dead-4'))
  await visit('once a plan whose set grew comes again', base, '/ui/plan?act=message-cancel&tenant=default&filter=id%3Dgrows-*', async (page, of) => {
    equal(await text(page, 'h1'), 'Cancel 2 messages', 'what was planned')
    await scheduled(['grows-3'])
    const before = await done('grows-')
    await toButton(page)
    await going(page, () => page.keyboard.press('Enter'))
    equal([new URL(page.url()).pathname, await text(page, 'h1')], ['/ui/plan', 'Cancel 3 messages'], 'the plan, with all that is there')
    const said = await page.$eval('main', e => e.innerText)
    for (const part of ['Nothing was done', 'OPERATION.SET_GREW']) if (!said.includes(part)) throw new Error(`no ${part}: ${said}`)
    expectRefusal(of)
    await sound(of, 'the plan that came again')
    equal([await done('grows-'), (await get('/v1/messages/grows-1')).state], [before, 'pending'], 'what was done')
    await toButton(page)
    await going(page, () => page.keyboard.press('Enter'))
    equal(new URL(page.url()).pathname, '/ui/operation', 'where the second press leads')
    equal((await done('grows-')).operations, before.operations + 1, 'operations')
  }, () => scheduled(['grows-1', 'grows-2']))

  await visit('history back and reload', base, '/ui/messages', async page => {
    const first = await text(page, 'tbody')
    await going(page, () => page.click('a[rel=next]'))
    const [address, second] = [path(page), await text(page, 'tbody')]
    if (!address.includes('after=') || second === first) throw new Error(`${address} isn’t another page`)
    await page.reload({ waitUntil: 'load' }); equal(await text(page, 'tbody'), second, 'reload')
    await going(page, () => page.goBack()); equal(path(page), '/ui/messages', 'back')
    await going(page, () => page.goForward()); equal([path(page), await text(page, 'tbody')], [address, second], 'forward')
  })
}
