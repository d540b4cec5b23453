// The page in a real browser. It is given the name of a file with one JSON object, and prints a line a check: `ok NAME`, or `not ok NAME: why`.
import { acts } from './acts.mjs'
import { display } from './display.mjs'
import { browser, check, timed } from './harness.mjs'
import { keys } from './keys.mjs'
import { killed } from './killed.mjs'
import { live } from './live.mjs'
import { looks } from './looks.mjs'
import { once } from './once.mjs'
import { session } from './session.mjs'
import { states } from './states.mjs'

// Views first, as they were filled; what ends a session last.
for (const part of [looks, keys, display, states, once, acts, killed, live, session]) await timed(part.name, part)
await check('the browser ends', () => browser.close())
