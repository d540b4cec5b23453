// The page in a real browser: each view in each width and theme, without script, by keyboard, while it changes, signed in and out.
// It is given one JSON text, and prints a line a check: `ok NAME`, or `not ok NAME: why`.
import { mkdirSync } from 'node:fs'
import { complained, equal, findings, going, launch, none, open, path, text, until } from './browser.mjs'

const given = JSON.parse(process.argv[2])
const { base, secured, token, chromium, profile, screenshots, views } = given
mkdirSync(screenshots, { recursive: true })
const browser = await launch(chromium, profile)

const check = async (name, act) => {
  try { await act(); console.log(`ok ${name}`) } catch (e) { console.log(`not ok ${name}: ${String(e.message ?? e).replaceAll('\n', ' ')}`) }
}
/// A check with a page of its own, which must not complain of anything.
const visit = (name, origin, address, act) => check(name, async () => {
  const context = await browser.createBrowserContext()
  try {
    const seen = await open(context, origin)
    await seen.page.goto(origin + address, { waitUntil: 'load' })
    await act(seen.page, seen, context)
    none(await complained(seen), 'it complained')
  } finally { await context.close() }
})

// Each view: no finding, nothing wider than its window, no complaint.
for (const [view, address, sizes] of views) {
  await visit(`look ${view}`, base, address, async (page, seen) => {
    for (const [width, theme] of sizes) {
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
      await check(`view ${view} ${width} ${theme}`, async () => {
        await page.setViewport({ width, height: 900 })
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
        if (wide > 0) {
          const who = await page.evaluate(() => [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, pre, .vh')).slice(0, 4).map(e => `${e.tagName}.${e.className}`))
          throw new Error(`it is ${wide} px too wide: ${who.join(', ')}`)
        }
        none(await complained(seen), 'it complained')
        await page.screenshot({ path: `${screenshots}/${view}-${width}-${theme}.png`, fullPage: true })
        none(await findings(seen), 'axe')
      })
    }
  })
}

// Without script a view says the same, and nothing on it waits for a script.
for (const [view, address] of views) {
  await check(`plain ${view}`, async () => {
    const context = await browser.createBrowserContext()
    try {
      const { page } = await open(context, base)
      await page.setJavaScriptEnabled(false)
      const answer = await page.goto(base + address, { waitUntil: 'load' })
      equal(answer.status(), 200, 'status')
      const read = await page.evaluate(() => ({
        heading: document.querySelector('h1')?.checkVisibility() ?? false,
        says: document.querySelector('main').innerText.length > 40,
        needsScript: ['#live', '#old', '#newer'].filter(q => document.querySelector(q)?.checkVisibility()),
      }))
      equal(read, { heading: true, says: true, needsScript: [] }, 'what is read')
    } finally { await context.close() }
  })
}

const focused = page => page.evaluate(() => [...document.querySelectorAll('tbody tr')].indexOf(document.activeElement))
const send = async id => {
  const body = JSON.stringify({ id, topic: 'bus:work.live', payload: { id } })
  const answer = await fetch(`${base}/v1/messages`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
}

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
  const rows = () => page.$$eval('tbody tr', list => list.map(row => row.textContent))
  await page.keyboard.press('j')
  const before = await rows()
  await send('live-3')
  await until(page, () => document.querySelector('#newer').checkVisibility())
  equal([await rows(), await focused(page)], [before, 0], 'rows and focus')
  if (!/^\d+ newer/.test(await text(page, '#newer'))) throw new Error(await text(page, '#newer'))
  await going(page, () => page.click('#newer'))
  if (!(await rows())[0].includes('live-3')) throw new Error('the newest row isn’t first')
})

// Its transport is paused: what is put back waits, and how often it was put back stands still.
const replays = async id => (await (await fetch(`${base}/v1/messages/${id}`)).json()).replays
const acts = async id => (await (await fetch(`${base}/v1/audit?limit=200`)).json()).items.filter(act => act.kind === 'TxReplayRequested' && act.object.includes(id)).length
await visit('act by keyboard: plan, form, answer', base, '/ui/message?tenant=default&id=dead-1', async (page, seen) => {
  const press = async (selector, key = 'Enter') => { await page.focus(selector); await going(page, () => page.keyboard.press(key)) }
  await press('a[href*="act=dead-replay"]')
  equal(new URL(page.url()).pathname, '/ui/plan', 'the plan comes first')
  none(await findings(seen), 'axe of the plan')
  await page.focus('main form[method=post] input[name=reason]')
  await page.keyboard.type('by the test')
  await press('main form[method=post] button:not([type=button])')
  equal(new URL(page.url()).pathname, '/ui/answer', 'what it came to')
  none(await findings(seen), 'axe of the answer')
  await page.reload({ waitUntil: 'load' })
  equal([await replays('dead-1'), await acts('dead-1')], [1, 1], 'it was put back once')
})
await visit('act twice by a double press is done once', base, '/ui/plan?act=dead-replay&tenant=default&id=dead-2', async page => {
  const sent = await page.evaluate(async () => {
    const form = document.querySelector('main form[method=post]')
    const body = new URLSearchParams(new FormData(form))
    const send = () => fetch(form.action, { method: 'POST', body, redirect: 'manual' })
    return (await Promise.all([send(), send()])).map(answer => answer.type)
  })
  equal(sent, ['opaqueredirect', 'opaqueredirect'], 'both are answered as one')
  equal([await replays('dead-2'), await acts('dead-2')], [1, 1], 'it was put back once')
})

await visit('history back and reload', base, '/ui/messages', async page => {
  const first = await text(page, 'tbody')
  await going(page, () => page.click('a[rel=next]'))
  const [address, second] = [path(page), await text(page, 'tbody')]
  if (!address.includes('after=') || second === first) throw new Error(`${address} isn’t another page`)
  await page.reload({ waitUntil: 'load' }); equal(await text(page, 'tbody'), second, 'reload')
  await going(page, () => page.goBack()); equal(path(page), '/ui/messages', 'back')
  await going(page, () => page.goForward()); equal([path(page), await text(page, 'tbody')], [address, second], 'forward')
})

await visit('sign-in by keyboard', secured, '/ui/messages?filter=state%3Dpending', async (page, seen, context) => {
  const enter = async typed => {
    equal(await page.evaluate(() => document.activeElement.name), 'token', 'the field has the focus')
    await page.keyboard.type(typed)
    await going(page, () => page.keyboard.press('Enter'))
  }
  equal(new URL(page.url()).pathname, '/ui/sign-in', 'where a stranger lands')
  none(await findings(seen), 'axe')
  await enter('not a token of this host')
  if (!(await text(page, 'main')).includes('AUTH.REQUIRED')) throw new Error('it isn’t said why')
  // The browser writes the status of a refusal to its console.
  seen.complaints.splice(0)
  await enter(token)
  equal(path(page), '/ui/messages?filter=state%3Dpending', 'where one wanted to go')
  const other = await open(context, secured)
  await other.page.goto(`${secured}/ui`, { waitUntil: 'load' })
  await other.page.focus('form[action="/ui/sign-out"] button')
  await going(other.page, () => other.page.keyboard.press('Enter'))
  equal(path(other.page), '/ui/sign-in', 'signed out')
  await page.bringToFront()
  await until(page, () => document.querySelector('#old').checkVisibility())
  if (!(await text(page, '#old')).startsWith('You are not signed in')) throw new Error(await text(page, '#old'))
})

await check('the browser ends', () => browser.close())
