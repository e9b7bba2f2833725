// The status page: what the feed tells, drawn; everything else in its own file.

import { Detail } from './detail.js';
import { byId, element, gathered, number, pill, plural } from './dom.js';
import { Feed } from './feed.js';
import { List } from './list.js';
import { Recent } from './recent.js';
import { Server } from './server.js';
import { View, words } from './view.js';

const STATUSES = ['UP', 'DOWN', 'STARTING', 'OUT_OF_SERVICE', 'UNKNOWN'];
const VIEWS = ['instances', 'recent', 'server'];
// Up to so many instances every application is open at first.
const FEW = 300;
const FRESH = 2000;

const namespace = new URLSearchParams(location.search).get('namespace') ?? '';
const filter = byId('filter');
// Applications that somebody opened or closed: of the whole list, and of what a search found.
const turned = new Map();
const turnedFound = new Map();
const hidden = new Set();
let state = 'wait';

const draw = gathered(() => (view.held.size > FEW ? 150 : 30), drawn);
const view = new View((app, id) => {
  draw();
  if (app === undefined) return;
  recent.refresh();
  if (detail.is(app, id)) detail.refresh();
});
const server = new Server(reported);
const recent = new Recent(namespace, opened);
const detail = new Detail(namespace, view, server, () => byId('list').focus());
const list = new List(byId('list'), { draw: row, open: chosen, turn });
const feed = new Feed(namespace, view, (told) => {
  state = told;
  connection();
});

const searches = () => filter.value.trim() !== '';

function isOpen(app) {
  if (searches()) return turnedFound.get(app.name) ?? true;
  return turned.get(app.name) ?? view.held.size <= FEW;
}

function rows() {
  const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (one) => !hidden.has(one.status) && wanted.every((word) => words(one).includes(word));
  const [shown, now] = [[], performance.now()];
  let found = 0;
  for (const app of view.sortedApps()) {
    const members = wanted.length || hidden.size ? app.sorted.filter(fits) : app.sorted;
    if (!members.length) continue;
    found += members.length;
    const open = isOpen(app);
    const counts = STATUSES.map((status) => [status, members.filter((one) => one.status === status).length]);
    const zones = [...new Set(members.map((one) => one.zone).filter(Boolean))].sort();
    shown.push({ key: `app ${app.name}`, mark: `${open} ${counts} ${zones}`, app, open, counts, zones, size: members.length });
    if (open) {
      for (const one of members) {
        const fresh = one.touched > 0 && now - one.touched < FRESH;
        shown.push({ key: `one ${app.name}\0${one.id}`, mark: one.version.join(), one, fresh });
      }
    }
  }
  return { shown, found, searched: wanted.length > 0 || hidden.size > 0 };
}

function drawn() {
  const { shown, found, searched } = rows();
  list.show(shown);
  byId('expand').textContent = shown.some((one) => one.open) ? 'Collapse all' : 'Expand all';
  const all = `${plural(view.held.size, 'instance')} of ${plural(view.apps.size, 'application')}`;
  const empty = state === 'wait' ? 'Waiting for the server' : 'No instances available';
  byId('found').textContent = searched ? `${number(found)} of ${all}` : view.held.size ? all : empty;
  statuses();
  tiles();
  connection();
}

function row({ key, app, one, open, counts, zones, size, fresh }) {
  if (key.startsWith('app ')) {
    const pills = counts.filter(([, count]) => count > 0).map(([status, count]) => pill(status, `${number(count)} ${status}`));
    return element('div', { class: 'app', 'aria-level': 1, 'aria-expanded': open },
      element('span', { role: 'gridcell', class: 'name' }, app.name),
      element('span', { role: 'gridcell', class: 'count' }, plural(size, 'instance')),
      element('span', { role: 'gridcell', class: 'zone' }, zones.join(', ')),
      element('span', { role: 'gridcell', class: 'end' }, ...pills));
  }
  return element('div', { class: fresh ? 'one fresh' : 'one', 'aria-level': 2 },
    element('span', { role: 'gridcell', class: 'name' }, one.id),
    element('span', { role: 'gridcell', class: 'count' }, one.address),
    element('span', { role: 'gridcell', class: 'zone' }, one.zone),
    element('span', { role: 'gridcell', class: 'end' }, pill(one.status)));
}

function chosen(row) {
  if (row.one) opened(row.one.app, row.one.id);
  else turn(row, !row.open);
}

function turn(row, open) {
  if (!row.one) (searches() ? turnedFound : turned).set(row.app.name, open);
  else if (!open) list.select(list.rows.findIndex(({ key }) => key === `app ${row.one.app}`));
  drawn();
}

function opened(app, id) {
  location.hash = 'instances';
  show('instances');
  detail.open(app, id);
}

// One button for each status: what is not pressed is not shown.
const buttons = STATUSES.map((status) => {
  const button = element('button', { type: 'button', 'aria-pressed': 'true', 'data-status': status, hidden: '' });
  button.addEventListener('click', () => {
    if (!hidden.delete(status)) hidden.add(status);
    button.setAttribute('aria-pressed', !hidden.has(status));
    drawn();
  });
  return [status, button];
});

function count(status) {
  let sum = 0;
  for (const one of view.held.values()) sum += one.status === status;
  return sum;
}

function statuses() {
  for (const [status, button] of buttons) {
    const sum = count(status);
    button.textContent = `${number(sum)} ${status}`;
    // What somebody stands on stays.
    button.hidden = sum === 0 && !hidden.has(status) && button !== document.activeElement;
  }
}

function tiles() {
  const status = server.last;
  if (!status) return;
  const { leases, preservation, peers } = status;
  const up = peers.filter((peer) => peer.connected).length;
  const tile = (name, value, level) => element('div', { 'data-level': level }, element('dt', {}, name), element('dd', {}, value));
  byId('tiles').replaceChildren(
    tile('Instances', number(view.held.size)),
    tile('Applications', number(view.apps.size)),
    tile('Renewals / min', `${number(leases.renewals_last_minute)} of ${number(leases.expected_per_minute)}`),
    tile('Leases held back', number(preservation.held), preservation.held ? 'bad' : null),
    tile('Self-preservation', preservation.protecting ? 'protecting' : preservation.mode === 'off' ? 'off' : 'quiet', preservation.protecting ? 'bad' : null),
    tile('Replicas', peers.length ? `${up} of ${peers.length}` : 'none', up < peers.length ? 'bad' : null));
}

function reported(status) {
  if (!status) state = state === 'live' ? state : 'lost';
  feed.permit(status?.server.state === 'ready');
  tiles();
  connection();
}

// How true what is shown is.
function connection() {
  const texts = {
    live: { proved: 'Live, proved complete', differs: 'Live, being compared', open: 'Live', none: 'Live' },
  };
  const waiting = { wait: 'Opening', lost: 'Reconnecting', rests: 'At rest' };
  const box = byId('live');
  const text = texts[state]?.[view.proof] ?? waiting[state];
  if (box.textContent !== text) box.textContent = text;
  box.dataset.state = state;
  box.dataset.proof = view.proof;
  box.title = view.revision ? `revision ${view.revision}` : '';
}

function show(name) {
  for (const other of VIEWS) byId(`${other}-view`).hidden = other !== name;
  for (const tab of document.querySelectorAll('nav a')) {
    if (tab.dataset.view === name) tab.setAttribute('aria-current', 'page');
    else tab.removeAttribute('aria-current');
  }
  recent.show(name === 'recent');
}

function named() {
  const name = location.hash.slice(1);
  const first = location.pathname.endsWith('/lastn') ? 'recent' : 'instances';
  show(VIEWS.includes(name) ? name : first);
}

byId('statuses').append(...buttons.map(([, button]) => button));
filter.addEventListener('input', () => {
  turnedFound.clear();
  drawn();
});
filter.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    filter.value = '';
    drawn();
    byId('list').focus();
  } else if (event.key === 'ArrowDown' || event.key === 'Enter') {
    event.preventDefault();
    byId('list').focus();
  }
});
byId('expand').addEventListener('click', () => {
  const open = !list.rows.some((row) => row.open);
  for (const name of view.apps.keys()) (searches() ? turnedFound : turned).set(name, open);
  drawn();
});
document.addEventListener('keydown', (event) => {
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === 'Escape' && !typing) detail.close();
  if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const box = byId('recent-view').hidden ? filter : byId('recent-filter');
  if (box === filter) {
    location.hash = 'instances';
    show('instances');
  }
  box.focus();
});
window.addEventListener('hashchange', named);
named();
server.follow();
