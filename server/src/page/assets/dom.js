// Elements from texts. Nothing here reads markup, so nothing that is shown can become any.

export const byId = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

// A link where the text is an address of the web, else the text.
export function link(text) {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !['http:', 'https:'].includes(url.protocol)) return document.createTextNode(text);
  return element('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer' }, text);
}

// Rows of names and values; those without a value are left out.
export function terms(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== '');
  return shown.map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value)));
}

export const pill = (status, text = status) => element('span', { class: 'pill', 'data-status': status }, text);

export const number = (value) => Math.round(value).toLocaleString('en');

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

export function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');

export function moment(ms) {
  const at = new Date(ms);
  const date = at.toLocaleDateString('sv');
  return element('time', { datetime: at.toISOString() }, `${date} ${at.toLocaleTimeString('en-GB')}`);
}

export function bytes(count) {
  if (count === null || count === undefined) return null;
  if (count < 1048576) return `${number(count / 1024)} KiB`;
  const mebibytes = count / 1048576;
  return mebibytes >= 10240 ? `${(mebibytes / 1024).toFixed(1)} GiB` : `${number(mebibytes)} MiB`;
}

// The address of what lies beside the page. One that holds name and password, as that of the page may, is fetched by no
// browser; it remembers both.
export function beside(path) {
  const address = new URL(path, location.href);
  address.username = '';
  address.password = '';
  return address;
}

// The documents beside the feed; nothing where the server does not answer.
export async function fetched(path) {
  try {
    const answer = await fetch(beside(path), { cache: 'no-store' });
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

// Calls at most once within a time, however often it is asked to, and never more than that time late.
export function gathered(wait, act) {
  let timer = 0;
  return () => {
    timer ||= setTimeout(() => {
      timer = 0;
      act();
    }, wait());
  };
}
