// Keys of the script: rows, search, views, times, help.
import { equal, going, path, text } from './browser.mjs'
import { base, visit } from './harness.mjs'

const focused = page => page.evaluate(() => [...document.querySelectorAll('tbody tr')].indexOf(document.activeElement))

export async function keys() {
  await visit('keys rows', base, '/ui/messages', async page => {
    await page.keyboard.press('j'); equal(await focused(page), 0, 'j')
    await page.keyboard.press('j'); equal(await focused(page), 1, 'j again')
    await page.keyboard.press('k'); equal(await focused(page), 0, 'k')
    await going(page, () => page.keyboard.press('Enter'))
    equal(new URL(page.url()).pathname, '/ui/message', 'Enter')
  })
  await visit('keys find and filter', base, '/ui/messages', async page => {
    const at = () => page.evaluate(() => document.activeElement.id)
    await page.keyboard.press('/'); equal(await at(), 'find', '/')
    await page.keyboard.type('jf'); equal(await page.$eval('#find', e => e.value), 'jf', 'letters are letters while one types')
    await page.keyboard.press('Escape'); equal(await at(), '', 'Escape')
    await page.keyboard.press('f'); equal(await at(), 'filter', 'f')
    await page.keyboard.type('state=pending')
    await going(page, () => page.keyboard.press('Enter'))
    equal(path(page), '/ui/messages?filter=state%3Dpending', 'the address is the view')
  })
  for (const [letter, to] of [['o', '/ui'], ['m', '/ui/messages'], ['d', '/ui/dead-letters'], ['s', '/ui/sagas'], ['p', '/ui/plugins'], ['t', '/ui/streams']]) {
    await visit(`keys g ${letter}`, base, '/ui/blocked', async page => {
      await page.keyboard.press('g')
      await going(page, () => page.keyboard.press(letter))
      equal(path(page), to, 'where it leads')
    })
  }
  await visit('keys times', base, '/ui/messages', async page => {
    const cell = () => text(page, 'tbody time')
    const utc = await cell()
    await page.emulateTimezone('Asia/Kolkata')
    await page.keyboard.press('t'); equal(await text(page, '#zone span:last-child'), 'local', 't')
    const local = await cell()
    if (local === utc) throw new Error(`${local} is shown as local time`)
    await page.keyboard.press('t')
    if (!/^\d+ (s|m \d+ s)$/.test(await cell())) throw new Error(`no age: ${await cell()}`)
    await page.reload({ waitUntil: 'load' })
    equal(await text(page, '#zone span:last-child'), 'age', 'it is kept')
    await page.keyboard.press('t'); equal(await cell(), utc, 'UTC again')
  })
  await visit('keys help and switch', base, '/ui/messages', async page => {
    const isOpen = () => page.$eval('#keys', e => e.matches(':popover-open'))
    await page.keyboard.press('?'); equal(await isOpen(), true, '?')
    await page.click('#single-keys')
    await page.keyboard.press('Escape'); equal(await isOpen(), false, 'Escape')
    await page.keyboard.press('j'); equal(await focused(page), -1, 'j with single keys off')
    await page.click('[popovertarget=keys]'); equal(await isOpen(), true, 'the button')
    await page.click('#single-keys')
    await page.keyboard.press('Escape')
    await page.keyboard.press('j'); equal(await focused(page), 0, 'j with single keys on')
  })
}
