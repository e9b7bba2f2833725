// The last registrations and removals, and why.

import { byId, clock, element, fetched, gathered, moment, pill, plural } from './dom.js';
import { List } from './list.js';

const MOST = 1000;
const KINDS = { registration: 'Registered', removal: 'Removed', change: 'Changed' };

const CAUSES = {
  registered: 'registered',
  updated: 'registered again with other content',
  status_reported: 'reported another status',
  metadata_changed: 'metadata changed',
  override_set: 'status set by an operator',
  override_cleared: 'operator’s status taken back',
  override_ended: 'operator’s status ended',
  cancelled: 'cancelled',
  expired: 'its lease ran out',
  merged: 'taken over from another server',
  revived: 'kept: it was heard here in time',
};

const ORIGINS = {
  rest_client: 'over REST',
  grpc_client: 'over gRPC',
  eureka_server: 'by a Eureka server',
  peer: 'by a peer',
  operator: 'by an operator',
  server: 'by this server',
};

export function reason({ cause, origin, removal }) {
  const why = cause === 'merged' && removal ? `${removal}, ${CAUSES.merged}` : CAUSES[cause] ?? cause;
  return `${why} ${cause === 'expired' ? '' : ORIGINS[origin] ?? ''}`.trim();
}

export class Recent {
  constructor(namespace, open) {
    this.namespace = namespace;
    this.events = [];
    this.boot = null;
    this.revision = 0;
    this.kind = 'registration';
    this.busy = false;
    this.visible = false;
    this.list = new List(byId('recent'), { draw, open: (row) => open(row.event.app, row.event.id) });
    this.refresh = gathered(() => 300, () => this.read());
    byId('recent-filter').addEventListener('input', () => this.draw());
    this.buttons = Object.entries(KINDS).map(([kind, text]) => {
      const button = element('button', { type: 'button', 'aria-pressed': kind === this.kind }, text);
      button.addEventListener('click', () => this.choose(kind));
      return [kind, button];
    });
    byId('kinds').append(...this.buttons.map(([, button]) => button));
  }

  choose(kind) {
    this.kind = kind;
    this.buttons.forEach(([of, button]) => button.setAttribute('aria-pressed', of === kind));
    this.draw();
  }

  show(visible) {
    this.visible = visible;
    if (visible) this.read();
  }

  async read() {
    if (this.busy || !this.visible) return;
    this.busy = true;
    const query = new URLSearchParams({ after: this.revision });
    if (this.namespace) query.set('namespace', this.namespace);
    const told = await fetched(`v1/events?${query}`);
    this.busy = false;
    if (!told) return;
    if (this.boot !== null && told.boot !== this.boot) {
      // Another life of the server counts from the beginning.
      Object.assign(this, { boot: null, revision: 0, events: [] });
      return void this.read();
    }
    this.boot = told.boot;
    // What was numbered while the answer was made may come twice, so it is known by its number.
    const known = new Set(told.events.map(({ revision }) => revision));
    this.events = [...told.events, ...this.events.filter(({ revision }) => !known.has(revision))];
    this.revision = Math.max(0, told.revision - 64);
    this.trim();
    this.draw();
  }

  trim() {
    const counts = {};
    this.events = this.events.filter(({ kind }) => (counts[kind] = (counts[kind] ?? 0) + 1) <= MOST);
  }

  draw() {
    const wanted = byId('recent-filter').value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (event) => {
      const text = `${event.app} ${event.id} ${event.status} ${reason(event)}`.toLowerCase();
      return event.kind === this.kind && wanted.every((word) => text.includes(word));
    };
    const rows = this.events.filter(fits).map((event) => ({ key: event.revision, mark: event.revision, event }));
    this.list.show(rows);
    byId('recent-found').textContent = rows.length ? `${plural(rows.length, 'event')}, newest first` : 'No event yet';
  }
}

function draw({ event }) {
  return element('div', { class: 'event' },
    element('span', { role: 'gridcell', class: 'time', title: moment(event.at_ms).textContent }, clock(event.at_ms)),
    element('span', { role: 'gridcell', class: 'name' }, element('b', {}, event.app), ` ${event.id}`),
    element('span', { role: 'gridcell', class: 'why' }, reason(event)),
    element('span', { role: 'gridcell', class: 'end' }, event.kind === 'removal' ? '' : pill(event.status)));
}
