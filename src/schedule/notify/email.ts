// Alarms as e-mail, over the SMTP server of MILLRACE_SMTP_URL.
import { createTransport } from 'nodemailer'
import { redact } from '../../core/redact.ts'
import type { Telling } from '../../ledger/deliveries.ts'
import type { Receiver } from './receivers.ts'
import { plainText, wordsOf } from './wording.ts'

const connectMs = 10_000
/** Of a subject; longer ones are cut by mail programs anyway. */
const longestSubject = 150

/** null: the server took it for all addresses; else why not. @param id makes the Message-ID, the same for every try */
export const sendMail = async (
  { smtp, from, to }: Extract<Receiver, { kind: 'email' }>,
  telling: Telling,
  id: string,
): Promise<string | null> => {
  const url = new URL(smtp.reveal())
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)
  const transport = createTransport({
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port) || (url.protocol === 'smtps:' ? 465 : 587),
    secure: url.protocol === 'smtps:',
    // A password goes over no line that others can read.
    requireTLS: url.protocol === 'smtp:' && !isLocal,
    ...(url.username === '' ? {} : { auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) } }),
    connectionTimeout: connectMs,
    greetingTimeout: connectMs,
    socketTimeout: connectMs,
  })
  try {
    const words = wordsOf(telling)
    const { rejected } = await transport.sendMail({
      from: { name: 'Millrace', address: from },
      to: [...to],
      subject: redact(`[millrace] ${words.headline}`).replaceAll(/\s+/g, ' ').slice(0, longestSubject),
      text: redact(`${plainText(words)}\n`),
      messageId: `<${id}@${from.slice(from.indexOf('@') + 1)}>`,
      // RFC 3834: nobody's holiday note answers it.
      headers: { 'Auto-Submitted': 'auto-generated' },
    })
    return rejected.length === 0 ? null : `the server refuses ${rejected.length} of ${to.length} addresses`
  } finally {
    transport.close()
  }
}
