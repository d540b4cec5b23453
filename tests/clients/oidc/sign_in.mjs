// People who sign in at a host's page by a provider, with what of a browser this takes: cookies by origin, redirects, forms. A line a check.
const { base, issuer, callback } = JSON.parse(process.argv[2])

/// Most redirects that one step leads through.
const HOPS = 12

class Browser {
  jars = new Map()

  /// One request; its cookies are those of its origin.
  async ask(address, options = {}) {
    const url = new URL(address)
    const jar = this.jars.get(url.origin) ?? new Map()
    this.jars.set(url.origin, jar)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { ...options.headers, ...(cookie ? { cookie } : {}) }
    const answer = await fetch(url, { ...options, headers, redirect: 'manual' })
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)
      if (/max-age=0|expires=thu, 01 jan 1970/i.test(line)) jar.delete(name)
      else jar.set(name, value)
    }
    return { url, status: answer.status, to: answer.headers.get('location'), cookies: answer.headers.getSetCookie(), text: await answer.text() }
  }

  /// Follows redirects to a page, or to the address that `until` takes, which isn't asked for.
  async go(address, options, until = () => false) {
    let answer = await this.ask(address, options)
    for (let hop = 0; hop < HOPS && answer.to; hop += 1) {
      const next = new URL(answer.to, answer.url)
      if (until(next)) return { ...answer, url: next }
      answer = await this.ask(next)
    }
    if (answer.to) throw new Error(`more than ${HOPS} redirects, to ${answer.to}`)
    return answer
  }

  /// Sends the only form of a page.
  async send(page, fields, until) {
    const [, action] = /<form[^>]* action="([^"]*)"/.exec(page.text)
    const hidden = [...page.text.matchAll(/<input[^>]*type="hidden"[^>]*>/g)].map(([input]) => [/name="([^"]*)"/.exec(input)[1], /value="([^"]*)"/.exec(input)[1]])
    const body = new URLSearchParams([...hidden, ...Object.entries(fields)])
    const url = new URL(action.replaceAll('&amp;', '&'), page.url)
    return this.go(url, { method: 'POST', body, headers: { origin: page.url.origin, 'sec-fetch-site': 'same-origin' } }, until)
  }

  /// Signs in at the provider and stops before its answer is handed over, or with `until` elsewhere.
  async atProvider(address, user, until = next => next.href.startsWith(callback)) {
    const login = await this.go(address, {}, until)
    if (login.url.origin !== issuer) return login
    const consent = await this.send(login, { login: user, password: 'any' }, until)
    return consent.url.origin === issuer ? this.send(consent, {}, until) : consent
  }
}

const check = async (name, work) => {
  try {
    await work()
    console.log(`ok ${name}`)
  } catch (error) {
    console.log(`not ok ${name}: ${error.stack.replaceAll('\n', ' | ')}`)
  }
}
const equal = (found, expected, what) => {
  if (found !== expected) throw new Error(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`)
}
const has = (text, part) => {
  if (!text.includes(part)) throw new Error(`no ${part} in ${text.slice(0, 4000)}`)
}
const begin = (to = '') => `${base}/ui/sign-in/oidc${to && `?to=${encodeURIComponent(to)}`}`
const path = page => page.url.pathname + page.url.search

const ada = new Browser()
let used

await check('a link leads to the provider and back to where one was going', async () => {
  const door = await ada.go(`${base}/ui/messages?filter=state%3Dpending`)
  equal(door.url.pathname, '/ui/sign-in', 'where a stranger lands')
  has(door.text, 'Sign in with Shop ID')
  const [, link] = /href="(\/ui\/sign-in\/oidc[^"]*)"/.exec(door.text)
  const answer = await ada.atProvider(new URL(link.replaceAll('&amp;', '&'), base), 'ada')
  used = answer.url.href
  const arrived = await ada.ask(used)
  equal(arrived.status, 303, 'the answer is taken')
  const [session] = arrived.cookies.filter(line => line.startsWith('__Host-waybill='))
  equal(session.replace(/=[^;]*/, '=x'), '__Host-waybill=x; Path=/; HttpOnly; Secure; SameSite=Lax', 'the cookie')
  const page = await ada.go(new URL(arrived.to, base))
  equal(path(page), '/ui/messages?filter=state%3Dpending', 'where one arrives')
  has(page.text, 'ada@shop.example (oidc:ada)')
})

await check('an answer is good once', async () => {
  const again = await ada.ask(used)
  equal(again.status, 403, 'the same answer again')
  has(again.text, 'AUTH.SIGN_IN')
})

await check('an answer is good in its own browser', async () => {
  const answer = await new Browser().atProvider(begin(), 'ada')
  const other = await new Browser().ask(answer.url)
  equal(other.status, 403, 'another browser')
  equal(other.cookies.some(line => line.startsWith('__Host-waybill=')), false, 'a session')
})

await check('who has no role is told which claim gives none', async () => {
  const eve = new Browser()
  const refused = await eve.go((await eve.atProvider(begin(), 'eve')).url)
  equal(refused.status, 403, 'a stranger to this host')
  for (const part of ['AUTH.SIGN_IN', 'eve@shop.example (oidc:eve)', 'groups']) has(refused.text, part)
  equal((await eve.go(`${base}/ui`)).url.pathname, '/ui/sign-in', 'still outside')
})

await check('who gives up at the provider reads so', async () => {
  const ben = new Browser()
  const login = await ben.go(begin())
  const refused = await ben.go(new URL(/href="([^"]*\/abort)"/.exec(login.text)[1], login.url))
  equal(refused.status, 403, 'given up')
  has(refused.text, 'access_denied')
})

await check('nobody is led elsewhere', async () => {
  const ben = new Browser()
  const page = await ben.go((await ben.atProvider(begin('//evil.example/ui'), 'ben')).url)
  equal(page.url.href, `${base}/ui`, 'where one arrives')
  has(page.text, 'oidc:ben')
  has(page.text, 'acme')
  equal(page.text.includes('ben@shop.example'), false, 'an address that nobody proved')
})

await check('an act is done as the person', async () => {
  const plan = await ada.go(`${base}/ui/plan?act=transport-pause&id=nowhere`)
  const [form] = /<form[^>]*action="\/ui\/plan[\s\S]*?<\/form>/.exec(plan.text)
  const answer = await ada.send({ ...plan, text: form }, { reason: 'tried' })
  equal(answer.status, 200, answer.text)
})

await check('signing out ends it', async () => {
  const page = await ada.go(`${base}/ui`)
  const [form] = /<form[^>]*action="\/ui\/sign-out[\s\S]*?<\/form>/.exec(page.text)
  await ada.send({ ...page, text: form }, {})
  equal((await ada.go(`${base}/ui`)).url.pathname, '/ui/sign-in', 'outside')
})
