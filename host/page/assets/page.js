// Waybill's page: comforts only. Without this file every view reads and every form works.
'use strict'
const $ = (q, at = document) => at.querySelector(q)
const $$ = (q, at = document) => [...at.querySelectorAll(q)]
const keep = (name, value) => { try { return value === undefined ? localStorage[name] : (localStorage[name] = value) } catch { return undefined } }
const say = text => { const box = $('#say'); if (box) box.textContent = text }

// Theme: system, light, dark. Times: UTC, local, age. The page always carries the exact instant.
const cycle = (button, name, values, apply) => {
  if (!button) return
  let now = values.includes(keep(name)) ? keep(name) : values[0]
  const show = () => { apply(now); $('span:last-child', button).textContent = now; button.title = `${name}: ${now}` }
  button.addEventListener('click', () => { now = values[(values.indexOf(now) + 1) % values.length]; keep(name, now); show(); say(`${name}: ${now}`) })
  show()
}
cycle($('#theme'), 'theme', ['system', 'light', 'dark'], t => t === 'system' ? delete document.documentElement.dataset.theme : document.documentElement.dataset.theme = t)
cycle($('#single-keys'), 'keys', ['on', 'off'], () => {})
const asOf = Date.parse($('#as-of')?.dateTime ?? '') || Date.now()
const age = ms => { const s = Math.max(0, Math.round(ms / 1000)); return s < 60 ? `${s} s` : s < 3600 ? `${s / 60 | 0} m ${s % 60} s` : s < 86400 ? `${s / 3600 | 0} h ${(s % 3600) / 60 | 0} m` : `${s / 86400 | 0} d` }
const instants = $$('time, text[data-at]')          // chart axes too: a page never mixes two zones
instants.forEach(t => { t.dataset.at ??= t.dateTime; t.dataset.utc = t.textContent; if (t.dateTime) t.title ||= t.dateTime })
cycle($('#zone'), 'time', ['UTC', 'local', 'age'], mode => instants.forEach(t => {
  const at = new Date(t.dataset.at), utc = t.dataset.utc, clock = /^\d\d:\d\d/.test(utc)
  const aged = mode === 'age' && t.closest('td, .log, .tail, .way')   // in a sentence or on an axis an age reads badly
  t.textContent = aged ? age(asOf - at) : mode !== 'local' ? utc : clock
    ? at.toTimeString().slice(0, Math.min(8, utc.length)) + utc.slice(8) : at.toLocaleString(undefined, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hour12: false })
}))

// Live: numbers change in place, by textContent alone; rows never come, leave or move by themselves. A tab that nobody sees, or that is
// paused, has no source. During a plan, a selection or a dialog nothing changes: the latest numbers come when it is over.
const live = $('#live'), source = document.body.dataset.source
if (live && source) {
  const title = document.title, old = $('#old'), newer = $('#newer'), verdicts = $$('[data-verdict]'), causes = $('[data-causes]')
  let events, again, heard = Date.now(), paused = false, isOver = false, news = {}
  const isBusy = () => $('.plan, dialog[open], tr[aria-selected=true], main [popover]:popover-open')
  const show = () => {
    if (paused || document.hidden || isBusy()) return
    const { n = {}, newer: rows, verdict } = news
    news = {}
    $$('[data-live]').forEach(e => { const text = n[e.dataset.live]; if (text !== undefined && e.textContent !== text) e.textContent = text })
    if (causes && n.held !== undefined) {
      const needs = Number(causes.dataset.causes) + Number(n.held.replaceAll(',', ''))
      document.title = needs ? `(${needs}) ${title}` : title
    }
    if (rows !== undefined) { newer.textContent = rows; newer.hidden = !rows }
    if (verdict) verdicts.forEach(v => { const isNow = v.dataset.verdict === verdict; if (isNow && v.hidden) say(v.textContent.trim()); v.hidden = !isNow })
  }
  const tell = () => {
    const ms = Date.now() - heard, isLate = ms > 15e3 && !paused
    $('span:last-child', live).textContent = paused ? 'Paused' : isOver ? 'Over' : ms < 7e3 ? 'Live' : `${age(ms)} old`
    old.hidden = !(isLate || isOver)
    $('span', old).textContent = isOver ? 'You are not signed in any more, or may not look at this: what is shown stays as it was.' : `No word from the host for ${age(ms)}: what is shown is as it was then.`
  }
  const hear = () => { heard = Date.now(); show(); tell() }
  const close = () => { clearTimeout(again); events?.close(); events = undefined }
  const open = () => {
    if (events || paused || isOver || document.hidden) return
    events = new EventSource(source)
    events.onmessage = e => { const m = JSON.parse(e.data); news = { ...news, ...m, n: { ...news.n, ...m.n } }; hear() }
    events.addEventListener('beat', hear)
    events.addEventListener('end', () => { isOver = true; close(); tell() })
    events.onerror = () => { if (events?.readyState === 2) { close(); again = setTimeout(open, 1e4) } }   // what breaks off, the browser opens again itself
  }
  live.hidden = false
  live.addEventListener('click', () => { paused = !paused; live.setAttribute('aria-pressed', paused); heard = Date.now(); paused ? close() : open(); tell(); say(paused ? 'What changes is paused' : 'Live') })
  document.addEventListener('visibilitychange', () => { heard = Date.now(); document.hidden ? close() : open() })
  addEventListener('pagehide', close); addEventListener('pageshow', open)
  setInterval(() => { show(); tell() }, 1000)
  open()
}

// Picking rows; a range with Shift. The bar below says how many, and what the filter matches beyond this page.
const boxes = $$('tbody input[type=checkbox]'), bar = $('.picked')
let last = -1
const picked = () => {
  const on = boxes.filter(b => b.checked)
  boxes.forEach(b => b.closest('tr').setAttribute('aria-selected', b.checked))
  if (bar) { bar.hidden = !on.length; $('b', bar).textContent = `${on.length} picked` }
}
boxes.forEach((b, i) => b.addEventListener('click', e => { if (e.shiftKey && last >= 0) for (let k = Math.min(i, last); k <= Math.max(i, last); k++) boxes[k].checked = b.checked; last = i; picked() }))
if (boxes.length) picked()

// One cross-hair over all charts: the same minute everywhere, its values in the captions.
const plots = $$('.plot')
plots.forEach(p => {
  p.addEventListener('pointermove', e => {
    const box = p.getBoundingClientRect(), n = JSON.parse(p.dataset.v).length
    const i = Math.min(n - 1, Math.max(0, Math.round((e.clientX - box.left) / box.width * (n - 1))))
    plots.forEach(q => {
      const x = i / (n - 1) * q.viewBox.baseVal.width, line = $('.x', q), now = $('.now output', q.closest('figure'))
      q.classList.add('hot'); line.setAttribute('x1', x); line.setAttribute('x2', x)
      now.dataset.was ??= now.textContent; const v = JSON.parse(q.dataset.v)[i]
      now.textContent = v == null ? '–' : q.dataset.f ? age(v * 1000) : v.toLocaleString('en')
    })
  })
  p.addEventListener('pointerleave', () => plots.forEach(q => { q.classList.remove('hot'); const now = $('.now output', q.closest('figure')); now.textContent = now.dataset.was ?? now.textContent }))
})

// Keys. Off while typing, and with Ctrl, Alt or Meta. One switch turns single keys off (WCAG 2.1.4).
const rows = $$('tbody tr[tabindex]'), root = $('.brand')?.getAttribute('href') ?? '/ui', go = { o: '', m: '/messages', d: '/dead-letters', s: '/sagas', p: '/plugins', t: '/streams' }
let chord = false
document.addEventListener('keydown', e => {
  if (e.ctrlKey || e.altKey || e.metaKey || keep('keys') === 'off') return
  if (e.target.closest('input:not([type=checkbox]), textarea, select')) { if (e.key === 'Escape') e.target.blur(); return }
  const at = rows.indexOf(document.activeElement?.closest('tr'))
  if (chord) { chord = false; if (e.key in go) { e.preventDefault(); location.href = root + go[e.key] } return }
  const act = {
    '/': () => $('#find')?.focus(), f: () => $('#filter')?.focus(), g: () => { chord = true; setTimeout(() => chord = false, 1200) },
    p: () => live?.click(), j: () => rows[Math.min(rows.length - 1, at + 1)]?.focus(), k: () => rows[Math.max(0, at - 1)]?.focus(),
    x: () => at >= 0 && $('input[type=checkbox]', rows[at])?.click(), Enter: () => at >= 0 && $('a[href]', rows[at])?.click(),
    t: () => $('#zone')?.click(), '?': () => $('#keys')?.togglePopover(),
  }[e.key]
  if (act && !(e.key === 'Enter' && e.target.closest('a, button'))) { e.preventDefault(); act() }
})
