// Each view and state as it looks: no finding, nothing wider than its window, no complaint; and without script it says the same.
import { complained, equal, expectRefusal, findings, none, open, tooWide } from './browser.mjs'
import { base, browser, check, fresh, given, secured, signIn } from './harness.mjs'

const origins = { open: base, secured, stranger: secured }

/// What somebody reads for whom the script doesn't run. Nothing that waits for a script is there. What is refused is said in few words.
const readPlain = (page, letters) => page.evaluate(letters => ({
  heading: document.querySelector('h1')?.checkVisibility() ?? false,
  says: document.querySelector('main').innerText.length > letters,
  needsScript: ['#live', '#old', '#newer'].filter(q => document.querySelector(q)?.checkVisibility()),
}), letters)

async function look(of, view, [width, theme, script], withAxe) {
  const { page } = of
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }, { name: 'prefers-reduced-motion', value: 'reduce' }])
  await page.setViewport({ width, height: 900 })
  none(await tooWide(page), 'it is too wide')
  if (script === 'plain') equal(await readPlain(page, view.status < 400 ? 40 : 20), { heading: true, says: true, needsScript: [] }, 'what is read')
  if (view.status >= 400) expectRefusal(of)
  none(await complained(of), 'it complained')
  await page.screenshot({ path: `${given.pictures}/${view.name}-${width}-${theme}-${script}.png`, fullPage: true })
  if (!withAxe) return
  // The page's own script has missed its time: what runs now is axe alone.
  if (script === 'plain') await page.setJavaScriptEnabled(true)
  none(await findings(of), 'axe')
}

/// A view once loaded, in all the sizes and themes that it is looked at in.
async function lookAt(context, view, script, isNew) {
  const named = view.looks.filter(of => of[2] === script).map(of => [`look ${view.name} ${of.join(' ')}`, of])
  if (!named.length) return
  const of = await open(context, origins[view.host])
  try {
    await of.page.setJavaScriptEnabled(script === 'script')
    const answer = await of.page.goto(origins[view.host] + view.address, { waitUntil: 'load' }).catch(e => e)
    for (const [name, how] of named) {
      await check(name, async () => {
        if (answer instanceof Error) throw answer
        equal(answer.status(), view.status, 'status')
        await look(of, view, how, given.isFull || isNew(how[1]))
      })
    }
  } finally { await of.page.close() }
}

/// All views. In a run that isn't full, axe sees each once in each theme.
export async function looks() {
  const viewer = await browser.createBrowserContext()
  const door = await open(viewer, secured)
  await door.page.goto(`${secured}/ui/sign-in`, { waitUntil: 'load' })
  await signIn(door.page, given.token)
  await door.page.close()
  for (const view of given.views) {
    const met = new Set()
    const isNew = theme => !met.has(theme) && Boolean(met.add(theme))
    const both = async context => { for (const script of ['script', 'plain']) await lookAt(context, view, script, isNew) }
    await (view.host === 'secured' ? both(viewer) : fresh(both))
  }
  await viewer.close()
}
