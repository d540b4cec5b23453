// How a view is shown to who needs it otherwise: in another zone, in forced colours, at 200 % zoom, without motion.
import { complained, emulate, equal, none, text, tooWide } from './browser.mjs'
import { base, given, visit } from './harness.mjs'

const address = Object.fromEntries(given.views.map(view => [view.name, view.address]))
const picture = (page, name) => page.screenshot({ path: `${given.pictures}/${name.replaceAll(' ', '-')}.png`, fullPage: true })

/// Each instant that shows a time of day, axes of charts too, in the zone of who looks.
async function showsZone(page, timeZone) {
  const shown = await page.$$eval('time, text[data-at]', all => all.map(t => [t.dataset.at, t.dataset.utc, t.textContent]).filter(([, utc]) => /^\d\d:\d\d/.test(utc)))
  const clock = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  const wrong = shown.filter(([at, , now]) => now.slice(0, 5) !== clock.format(new Date(at)))
  none(wrong.map(String), `not as in ${timeZone}`)
  return shown.length
}

export async function display() {
  for (const zone of ['Pacific/Kiritimati', 'America/St_Johns', 'Asia/Kolkata']) {
    await visit(`zone ${zone}`, base, '/ui', async page => {
      if (!await showsZone(page, 'UTC')) throw new Error('the overview shows no time')
      if (!await page.$('text[data-at]')) throw new Error('the overview shows no chart')
      await page.emulateTimezone(zone)
      await page.keyboard.press('t')
      equal(await text(page, '#zone span:last-child'), 'local', 't')
      await showsZone(page, zone)
      // It is kept, and counts for the next view from its beginning on.
      await page.goto(`${base}/ui/messages`, { waitUntil: 'load' })
      if (!await showsZone(page, zone)) throw new Error('the list shows no time')
    })
  }
  for (const view of ['overview', 'plan-many', 'messages', 'dead-letters', 'saga-undone']) {
    const name = `colours forced ${view}`
    await visit(name, base, address[view], async (page, of) => {
      for (const theme of ['light', 'dark']) {
        await emulate(page, { 'forced-colors': 'active', 'prefers-color-scheme': theme })
        const found = await page.evaluate(() => ({
          isForced: matchMedia('(forced-colors: active)').matches,
          // Where grounds are gone, a border is what holds them together.
          borderless: [...document.querySelectorAll('main .tag, main .chip, main .note')].filter(e => e.checkVisibility() && !parseFloat(getComputedStyle(e).borderTopWidth)).map(e => e.className),
          wordless: [...document.querySelectorAll('main .st, main .tag')].filter(e => e.checkVisibility() && !e.textContent.trim()).length,
        }))
        equal(found, { isForced: true, borderless: [], wordless: 0 }, 'what is left without colours')
        none(await tooWide(page), 'it is too wide')
        none(await complained(of), 'it complained')
        await picture(page, `${name} ${theme}`)
      }
    })
  }
  for (const view of ['overview', 'dead-letters', 'saga-undone']) {
    const name = `colour-blind ${view}`
    await visit(name, base, address[view], async page => {
      // Who can't tell two colours goes by the shape and the word. The pictures are for people to look at.
      const bare = await page.$$eval('main .st', all => all.filter(e => e.checkVisibility() && !(e.querySelector('svg') && e.textContent.trim())).map(e => e.outerHTML))
      none(bare, 'a state without a shape or a word')
      for (const kind of ['achromatopsia', 'deuteranopia', 'protanopia', 'tritanopia']) {
        await page.emulateVisionDeficiency(kind)
        await picture(page, `${name} ${kind}`)
      }
    })
  }
  for (const view of ['overview', 'messages', 'dead-letters', 'saga-undone', 'plan-many', 'configuration']) {
    const name = `zoom ${view}`
    await visit(name, base, address[view], async page => {
      // 200 % in a window of 1,280 by 900 pixels: half as many of the style sheet's, each twice as large.
      await page.setViewport({ width: 640, height: 450, deviceScaleFactor: 2 })
      none(await tooWide(page), 'it is too wide')
      equal(await page.$eval('h1', e => e.checkVisibility()), true, 'the heading is there')
      await picture(page, name)
    })
  }
  await visit('motion', base, '/ui', async page => {
    const moving = async wish => {
      await emulate(page, { 'prefers-reduced-motion': wish })
      return page.evaluate(() => document.getAnimations().filter(animation => animation.playState === 'running').length)
    }
    if (!await moving('no-preference')) throw new Error('nothing moves, so this shows nothing')
    equal(await moving('reduce'), 0, 'what moves for who wants no motion')
  })
}
