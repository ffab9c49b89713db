// Follows the ledger: when the server says something changed, the page is asked for again and its main part replaced.
const main = document.querySelector('main[data-live]')
const state = document.getElementById('live-state')
if (main && state && 'EventSource' in window) {
  const source = new EventSource(main.dataset.live)
  let busy = false
  let again = false
  const refresh = async () => {
    if (busy) {
      again = true
      return
    }
    busy = true
    try {
      const answer = await fetch(location.href, { headers: { accept: 'text/html' } })
      if (!answer.ok) return
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html').querySelector('main')
      const open = main.contains(document.activeElement) && /^(INPUT|SELECT|BUTTON)$/.test(document.activeElement.tagName)
      if (fresh && !open) main.replaceChildren(...fresh.childNodes)
      state.textContent = `followed live, last change ${new Date().toLocaleTimeString()}`
    } finally {
      busy = false
      if (again) {
        again = false
        setTimeout(refresh, 500)
      }
    }
  }
  source.addEventListener('open', () => {
    state.textContent = 'followed live'
  })
  source.addEventListener('change', refresh)
  source.addEventListener('error', () => {
    state.textContent = 'not connected; trying again'
  })
}
