// A part of a view that fails and is slow: it says so, and the others stand.
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { none, sound, text, tooWide } from './browser.mjs'
import { base, given, visit } from './harness.mjs'

export async function states() {
  await visit('states a part that takes too long says so and the others stand', base, '/ui/configuration', async (page, of) => {
    const before = readFileSync(given.config, 'utf8'), component = `${given.config}.slow.wasm`, signature = `${component}.sig`
    // Who compares the file with what is in force reads the plugin's signature, which doesn't come: whoever opens a pipe waits for a writer.
    writeFileSync(component, 'no component')
    execFileSync('mkfifo', [signature])
    writeFileSync(given.config, `${before}\n[transport.slow]\nplugin = "${component}"\n`)
    try {
      await page.goto(`${base}/ui/configuration?compare=now`, { waitUntil: 'load' })
      const said = await text(page, 'main .empty.bad')
      for (const part of ['can’t be shown now', 'TX.TIMEOUT', 'no answer came within 2 s', 'Request', 'Try now']) if (!said.includes(part)) throw new Error(`no ${part}: ${said}`)
      const settings = await page.$eval('main', e => e.innerText)
      if (!settings.includes('server.listen')) throw new Error(`the settings aren’t there: ${settings}`)
      for (const width of [320, 1_440]) {
        await page.setViewport({ width, height: 900 })
        none(await tooWide(page), `it is too wide at ${width}`)
        await page.screenshot({ path: `${given.pictures}/part-failing-${width}.png`, fullPage: true })
      }
      await sound(of, 'the view')
    } finally {
      writeFileSync(given.config, before)
      try {
        closeSync(openSync(signature, constants.O_WRONLY | constants.O_NONBLOCK))
      } catch (e) {
        // Nobody waits there.
        if (e.code !== 'ENXIO') throw e
      }
      for (const file of [signature, component]) rmSync(file)
    }
  })
}
