// A real browser with what every page is watched for: errors, reports of the policy, requests to other hosts.
import puppeteer from 'puppeteer-core'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
/// Longest wait for anything. Milliseconds.
export const PATIENCE = 30_000

export const launch = (executablePath, userDataDir) => puppeteer.launch({
  executablePath, userDataDir, headless: true, defaultViewport: { width: 1280, height: 900 },
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-proxy-server', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', '--disable-extensions', '--disable-breakpad', '--password-store=basic', '--lang=en-GB'],
})

/// A page that keeps what it complained of. `expected` takes complaints that belong to what is done.
export async function open(context, origin) {
  const page = await context.newPage()
  page.setDefaultTimeout(PATIENCE)
  const complaints = []
  page.on('console', m => { if (['error', 'warn'].includes(m.type())) complaints.push(`console: ${m.text()} ${m.location()?.url ?? ''}`) })
  page.on('pageerror', e => complaints.push(`error: ${e.message}`))
  page.on('request', r => { if (!r.url().startsWith(`${origin}/`) && !r.url().startsWith('data:')) complaints.push(`request to ${r.url()}`) })
  await page.evaluateOnNewDocument(() => {
    globalThis.reports = []
    document.addEventListener('securitypolicyviolation', e => globalThis.reports.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`))
  })
  return { page, complaints }
}

/// What the page complained of since it was asked last, its policy's reports included.
export async function complained({ page, complaints }) {
  const reports = await page.evaluate(() => globalThis.reports?.splice(0) ?? [])
  return [...complaints.splice(0), ...reports.map(r => `policy: ${r}`)]
}

/// What axe finds, one line a rule. What axe itself does to a page isn't the page's.
export async function findings(of) {
  if (!await of.page.evaluate(() => 'axe' in globalThis)) await of.page.evaluate(AXE)
  const found = await of.page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'] })
    return violations.map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => `${n.target.join(' ')} (${n.failureSummary?.split('\n').pop().trim()})`).join('; ')}`)
  })
  await of.page.evaluate(() => globalThis.reports?.splice(0))
  of.complaints.length = 0
  return found
}

/// The browser writes the status of what was refused to its console: that is none of the page's complaints.
export const expectRefusal = of => {
  const kept = of.complaints.filter(complaint => !complaint.includes('Failed to load resource'))
  of.complaints.splice(0, of.complaints.length, ...kept)
}

/// Who is wider than the window, if anybody is.
export const tooWide = page => page.evaluate(() => {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth
  if (wide <= 0) return []
  const who = [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, pre, .vh'))
  return [`by ${wide} px`, ...who.slice(0, 4).map(e => `${e.tagName}.${e.className}`)]
})

const sessions = new WeakMap()
/// Media features by their names in CSS; puppeteer itself takes a few of them only.
export async function emulate(page, features) {
  if (!sessions.has(page)) sessions.set(page, await page.createCDPSession())
  await sessions.get(page).send('Emulation.setEmulatedMedia', { features: Object.entries(features).map(([name, value]) => ({ name, value })) })
}

/// Tabs from where the focus is to an element, as who has no mouse does. The focus has to be seen there.
export async function tabTo(page, selector) {
  for (let presses = 0; presses < 400; presses++) {
    await page.keyboard.press('Tab')
    const at = await page.evaluate(q => {
      const e = document.activeElement
      if (!e?.matches(q)) return null
      const { outlineStyle, outlineWidth } = getComputedStyle(e)
      return { isSeen: outlineStyle !== 'none' && parseFloat(outlineWidth) > 0 }
    }, selector)
    if (at?.isSeen) return
    if (at) throw new Error(`nobody sees that ${selector} has the focus`)
  }
  throw new Error(`Tab doesn’t lead to ${selector}`)
}
/// Past the navigation, by the link for that.
export async function skipToMain(page) {
  await tabTo(page, '.skip')
  await page.keyboard.press('Enter')
  await until(page, () => document.activeElement?.id === 'main')
}

/// Nothing that the page complained of, and then nothing that axe finds in it.
export async function sound(of, what) {
  none(await complained(of), `${what} complained`)
  none(await findings(of), `axe of ${what}`)
}

export const text = (page, selector) => page.$eval(selector, e => e.textContent.trim())
/// Waits until a condition holds in the page.
export const until = (page, condition, ...given) => page.waitForFunction(condition, { polling: 50, timeout: PATIENCE }, ...given)
/// Does something that leads to another page, and waits for that one.
export const going = async (page, act) => { await Promise.all([page.waitForNavigation({ waitUntil: 'load' }), act()]) }
export const path = page => { const url = new URL(page.url()); return url.pathname + url.search }
export const equal = (found, expected, what) => {
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`)
}
export const none = (list, what) => { if (list.length) throw new Error(`${what}: ${list.join(' | ')}`) }
