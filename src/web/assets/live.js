// Follows the ledger: when its mark is another one, the page is asked for again and its main part replaced.
// Times of the ledger are UTC; the reader sees them in the zone of this machine, with its name.
const zoned = new Intl.DateTimeFormat('en-GB', {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  timeZoneName: 'short',
})
const localise = () => {
  for (const time of document.querySelectorAll('time[datetime]:not([title])')) {
    const part = Object.fromEntries(zoned.formatToParts(new Date(time.dateTime)).map(({ type, value }) => [type, value]))
    time.title = time.textContent
    time.textContent = `${part.year}-${part.month}-${part.day} ${part.hour}:${part.minute} ${part.timeZoneName}`
  }
  // Ticks of a timeline, as long as they are: with the day or with seconds.
  for (const tick of document.querySelectorAll('text[data-at]')) {
    const at = new Date(tick.dataset.at)
    const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString()
    const [day, length] = [tick.textContent.includes('-') ? `${local.slice(5, 10)} ` : '', tick.textContent.length === 8 ? 8 : 5]
    tick.textContent = day + local.slice(11, 11 + length)
    tick.removeAttribute('data-at')
    tick.closest('figure').querySelector('[data-zone]').textContent = zoned
      .formatToParts(at)
      .find(({ type }) => type === 'timeZoneName').value
  }
}
localise()
const waiting = document.querySelector('main[data-again]')
// What is being worked out is asked for until it is there.
const askAgain = async () => {
  const answer = await fetch(location.href, { headers: { accept: 'text/html' } }).catch(() => null)
  if (!answer?.ok) return
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main')
  if (fresh?.dataset.again !== undefined) {
    setTimeout(askAgain, 1_000)
    return
  }
  if (fresh) waiting.replaceChildren(...fresh.childNodes)
  localise()
}
if (waiting) setTimeout(askAgain, 1_000)
const main = document.querySelector('main[data-live]')
const state = document.getElementById('live-state')
let mark = null
const refresh = async () => {
  const answer = await fetch(location.href, { headers: { accept: 'text/html' } })
  if (!answer.ok) return
  const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main')
  const open = main.contains(document.activeElement) && /^(INPUT|SELECT|BUTTON)$/.test(document.activeElement.tagName)
  if (fresh && !open) main.replaceChildren(...fresh.childNodes)
  localise()
  state.textContent = `live, last change ${new Date().toLocaleTimeString([], { timeZoneName: 'short' })}`
}
const follow = async () => {
  try {
    const answer = await fetch(main.dataset.live, { redirect: 'error' })
    if (!answer.ok) throw new Error(String(answer.status))
    const newest = await answer.text()
    if (mark === null) state.textContent = 'live'
    else if (newest !== mark) await refresh()
    mark = newest
  } catch {
    state.textContent = 'not connected; trying again'
    mark = ''
  }
  setTimeout(follow, 1_000)
}
if (main && state) follow()
