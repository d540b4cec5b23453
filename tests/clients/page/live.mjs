// What changes while a view is open, and what doesn't.
import { equal, going, none, PATIENCE, text, tooWide, until } from './browser.mjs'
import { base, eventually, get, given, send as sendAll, visit } from './harness.mjs'

const send = id => sendAll([{ id, topic: 'bus:work.live', payload: { id } }])
/// Dead letters there are while the list is looked at, and those that die meanwhile.
const [MANY, MORE] = given.isFull ? [100_000, 500] : [300, 100]
/// Longest wait until nearly all of them are dead. Milliseconds.
const DYING = given.isFull ? 1_200_000 : PATIENCE
/// Messages of one request.
const TOGETHER = 1_000
async function dying(count, name) {
  for (let from = 0; from < count; from += TOGETHER) {
    const numbers = Array.from({ length: Math.min(TOGETHER, count - from) }, (_, number) => from + number)
    await sendAll(numbers.map(number => ({ id: `${name}-${number}`, topic: given.refusesMany, payload: number })))
  }
}

/// Where the row with the focus stands in the window, and what else the list shows.
const place = page => page.evaluate(() => {
  const rows = [...document.querySelectorAll('tbody tr[tabindex]')], row = document.activeElement.closest('tr[tabindex]')
  return { at: rows.indexOf(row), row: row?.textContent, top: Math.round(row?.getBoundingClientRect().top), rows: rows.map(r => r.textContent).join('\n') }
})

export async function live() {
  await visit('live a number changes without a reload', base, '/ui', async page => {
    const ready = () => page.$eval('[data-live=ready]', e => Number(e.textContent.replaceAll(',', '')))
    await page.evaluate(() => { globalThis.isSame = true })
    await until(page, () => /^\(\d+\) /.test(document.title))
    const before = await ready()
    await send('live-1')
    await until(page, n => Number(document.querySelector('[data-live=ready]').textContent.replaceAll(',', '')) > n, before)
    equal(await page.evaluate(() => globalThis.isSame), true, 'the same document')
    equal(await text(page, '#live'), 'Live', 'the pill')
  })
  await visit('live pauses by a key', base, '/ui', async page => {
    await until(page, () => /^\(\d+\) /.test(document.title))
    await page.keyboard.press('p'); equal(await text(page, '#live'), 'Paused', 'p')
    equal(await page.$eval('#live', e => e.ariaPressed), 'true', 'pressed')
    const before = await text(page, '[data-live=ready]')
    await send('live-2')
    await new Promise(done => setTimeout(done, 2_500))
    equal(await text(page, '[data-live=ready]'), before, 'the number while it is paused')
    await page.keyboard.press('p')
    await until(page, before => document.querySelector('[data-live=ready]').textContent !== before, before)
  })
  await visit('live rows stay and newer ones are told', base, '/ui/messages', async page => {
    await page.keyboard.press('j')
    const before = await place(page)
    await send('live-3')
    await until(page, () => document.querySelector('#newer').checkVisibility())
    const { at, rows } = await place(page)
    equal([at, rows], [0, before.rows], 'focus and rows')
    if (!/^\d+ newer/.test(await text(page, '#newer'))) throw new Error(await text(page, '#newer'))
    await going(page, () => page.click('#newer'))
    // What waits for its time comes before all others.
    const first = (await page.$$eval('tbody tr', rows => rows.map(row => row.textContent))).find(row => !row.includes('schedule'))
    if (!first?.includes('live-3')) throw new Error(`the newest row isn’t first: ${first}`)
  })
  await visit('live a host that stands still is told, and so is that it goes on', base, '/ui', async page => {
    await until(page, () => /^\(\d+\) /.test(document.title))
    const before = await text(page, '[data-live=ready]')
    process.kill(given.pid, 'SIGSTOP')
    try {
      // Fifteen seconds pass for the page alone.
      await page.evaluate(() => { const now = Date.now; Date.now = () => now() + 20e3 })
      await until(page, () => document.querySelector('#old').checkVisibility())
      const said = [await text(page, '#old'), await text(page, '#live')]
      if (!said[0].startsWith('No word from the host for') || !said[1].endsWith(' old')) throw new Error(said.join(' | '))
      equal(await text(page, '[data-live=ready]'), before, 'what was shown')
      none(await tooWide(page), 'it is too wide')
      await page.screenshot({ path: `${given.pictures}/not-live.png`, fullPage: true })
    } finally {
      process.kill(given.pid, 'SIGCONT')
    }
    await until(page, () => !document.querySelector('#old').checkVisibility())
    equal(await text(page, '#live'), 'Live', 'the pill')
  })
  await visit('live dead letters that grow leave row and focus where they are', base, '/ui/dead-letters', async page => {
    for (let row = 0; row < 20; row++) await page.keyboard.press('j')
    const before = await place(page)
    equal([before.at, await page.evaluate(() => scrollY > 0)], [19, true], 'the twentieth row has the focus, further down')
    await dying(MORE, 'more')
    await until(page, most => parseInt(document.querySelector('#newer').textContent.replaceAll(',', ''), 10) >= most, MORE)
    equal(await place(page), before, 'focus, its row, where that stands, and all rows')
    await page.keyboard.press('j')
    equal((await place(page)).at, 20, 'the next row')
    await going(page, () => page.click('#newer'))
    if ((await place(page)).rows === before.rows) throw new Error('the newest aren’t shown')
  }, async () => {
    await dying(MANY, 'many')
    await eventually('the last of them is dead', async () => (await get(`/v1/messages/many-${MANY - 1}`)).state === 'dead', DYING)
  })
}
