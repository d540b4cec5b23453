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
