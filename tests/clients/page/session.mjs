// Sessions: in and out by keyboard, and over when the token isn't good any more.
import { writeFileSync } from 'node:fs'
import { equal, expectRefusal, going, open, path, sound, text, until } from './browser.mjs'
import { given, secured, signIn, visit } from './harness.mjs'

const isOver = async page => {
  await until(page, () => document.querySelector('#old').checkVisibility())
  if (!(await text(page, '#old')).startsWith('You are not signed in')) throw new Error(await text(page, '#old'))
}

export async function session() {
  await visit('sign-in by keyboard', secured, '/ui/messages?filter=state%3Dpending', async (page, of, context) => {
    const enter = async typed => {
      equal(await page.evaluate(() => document.activeElement.name), 'token', 'the field has the focus')
      await page.keyboard.type(typed)
      await going(page, () => page.keyboard.press('Enter'))
    }
    equal(new URL(page.url()).pathname, '/ui/sign-in', 'where a stranger lands')
    await sound(of, 'the form')
    await enter('not a token of this host')
    if (!(await text(page, 'main')).includes('AUTH.REQUIRED')) throw new Error('it isn’t said why')
    expectRefusal(of)
    await enter(given.token)
    equal(path(page), '/ui/messages?filter=state%3Dpending', 'where one wanted to go')
    const other = await open(context, secured)
    await other.page.goto(`${secured}/ui`, { waitUntil: 'load' })
    await other.page.focus('form[action="/ui/sign-out"] button')
    await going(other.page, () => other.page.keyboard.press('Enter'))
    equal(path(other.page), '/ui/sign-in', 'signed out')
    await page.bringToFront()
    await isOver(page)
  })
  // The last: the token is gone from then on.
  await visit('sign-in a session that is revoked is over', secured, '/ui/sign-in?to=%2Fui%2Fmessages', async page => {
    await signIn(page, given.token)
    equal(path(page), '/ui/messages', 'where one wanted to go')
    const before = await text(page, 'main')
    writeFileSync(given.file, given.revoked)
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${given.admin}` }
    const answer = await fetch(`${secured}/v1/config/reload`, { method: 'POST', headers, body: '{}' })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    await isOver(page)
    equal((await text(page, 'main')).endsWith(before.slice(-200)), true, 'what was shown stays')
    await page.reload({ waitUntil: 'load' })
    equal(new URL(page.url()).pathname, '/ui/sign-in', 'where one comes then')
  })
}
