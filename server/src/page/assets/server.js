// How the server is: figures, self-preservation and what it will do next, the other servers.

import { byId, bytes, element, fetched, link, moment, number, pill, plural, span, terms } from './dom.js';

const EVERY = 2000;
// While it does not answer, or not to readers.
const SOON = 500;
const MODES = { budget: 'budget of removals', eureka: 'Eureka’s arithmetic', off: 'off', freeze: 'nothing is removed' };

// What self-preservation will do next, in a sentence.
export function outlook(preservation) {
  const { next, budget, held, next_ms: wait, next_renewals: renewals, removed_last_minute: removed } = preservation;
  const [expected, heard] = [number(preservation.expected_per_minute), number(preservation.heard_per_minute)];
  const share = `${number(preservation.threshold * 100)} %`;
  const rate = `at most ${number(budget)} within a minute`;
  switch (next) {
    case 'at_once':
      return preservation.mode === 'off'
        ? 'Off: every instance leaves as soon as its lease runs out.'
        : `Instances leave as soon as their lease runs out, ${rate}; more than that would be held back.`;
    case 'while_others_are_silent':
      return `${plural(held, 'lease')} ran out and stay: only ${heard} of ${expected} renewals a minute arrive, less than ${share}, so the network is more likely at fault than the instances. Nothing leaves until the others are heard again.`;
    case 'after_others_renewed':
      return `${plural(held, 'lease')} ran out and stay for now. The others renew: whoever is still silent in ${span(wait)} begins to leave, ${rate}.`;
    case 'gradually':
      return wait > 0
        ? `${plural(held, 'lease')} ran out. Who was silent for ${span(wait)} beyond it leaves, ${rate} (${number(removed)} in the last one); the last UP instance of an application stays.`
        : `${plural(held, 'lease')} ran out. They leave now, ${rate} (${number(removed)} in the last one).`;
    case 'after_hold':
      return `Nobody renews at all, so ${plural(held, 'lease')} that ran out stay for another ${span(wait)}. Then they leave, ${rate}.`;
    case 'at_sweep':
      return `Eureka’s arithmetic: at the next sweep, in ${span(wait)}, at most ${number(budget)} whose lease ran out leave.`;
    case 'until_renewals':
      return `Eureka’s arithmetic: nothing leaves until more than ${number(renewals)} renewals come within a minute.`;
    default:
      return preservation.set_until_ms === null
        ? 'Nothing leaves while this server is catching up.'
        : `Nothing leaves: an operator said so${preservation.set_reason ? ` (${preservation.set_reason})` : ''}.`;
  }
}

export class Server {
  // `told` hears every status, and nothing where the server does not answer.
  constructor(told) {
    this.told = told;
    this.ahead = 0;
    this.last = null;
  }

  // The time of the server.
  now() {
    return Date.now() + this.ahead;
  }

  async follow() {
    if (!document.hidden || !this.last) await this.read();
    setTimeout(() => this.follow(), this.ready ? EVERY : SOON);
  }

  async read() {
    const status = await fetched('v1/server');
    if (status) {
      this.ahead = status.server.now_ms - Date.now();
      this.last = status;
      this.draw(status);
    }
    this.ready = status?.server.state === 'ready';
    this.told(status);
  }

  draw({ server, registry, leases, preservation, peers, peers_count: count, problems, watches, store }) {
    document.title = `Heureka ${server.node}`;
    byId('who').textContent = `${server.node} in ${server.cluster}`;
    byId('banners').replaceChildren(...banners(server, preservation, problems));
    byId('next').textContent = outlook(preservation);
    byId('preservation').replaceChildren(...terms([
      ['State', preservation.protecting ? 'protecting: leases are held back' : 'quiet'],
      ['Way', MODES[preservation.mode]],
      ['Set by an operator until', preservation.set_until_ms && moment(preservation.set_until_ms)],
      ['Leases', number(preservation.live)],
      ['Ran out and held', number(preservation.held)],
      ['Held for', preservation.held_for_ms === null ? null : span(preservation.held_for_ms)],
      ['Budget of a minute', number(preservation.budget)],
      ['Removed in the last minute', number(preservation.removed_last_minute)],
      ['Renewals heard in time', `${number(preservation.heard_per_minute)} of ${number(preservation.expected_per_minute)} a minute`],
      ['Threshold', `${number(preservation.threshold * 100)} %`],
    ]));
    byId('system').replaceChildren(...terms([
      ['State', pill(server.state === 'ready' ? 'UP' : 'STARTING', server.state)],
      ['Environment', server.cluster],
      ['Node', server.node],
      ['Region', server.region],
      ['Zone', server.zone],
      ['Current time', moment(server.now_ms)],
      ['Up since', moment(server.started_ms)],
      ['Uptime', span(server.uptime_ms)],
      ['Lease expiration', preservation.mode !== 'freeze' && !preservation.protecting ? 'enabled' : 'held back'],
      ['Renewals promised a minute', number(leases.expected_per_minute)],
      ['Renewals in the last minute', number(leases.renewals_last_minute)],
    ]));
    byId('general').replaceChildren(...terms([
      ['Version', server.version],
      ['Processors', number(server.processors)],
      ['Memory of the machine', bytes(server.memory_total_bytes)],
      ['Memory in use', bytes(server.memory_used_bytes)],
      ['Of that, records', bytes(registry.bytes)],
      ['Instances', number(registry.instances)],
      ['Applications', number(registry.applications)],
      ['Removed and remembered', number(registry.removed_remembered)],
      ['Changes since the start', number(registry.revision)],
      ['Leases that ran out', number(leases.expired)],
      ['Open watches', number(watches)],
      ['Stored rows', store && number(store.rows)],
      ['Last stored', store?.last_write_ms && moment(store.last_write_ms)],
      ['Store failed', store?.last_error],
    ]));
    byId('peers').replaceChildren(replicas(peers, count, server.now_ms));
  }
}

function banners(server, preservation, problems) {
  const banner = (level, text) => element('p', { class: 'banner', 'data-level': level }, text);
  const shown = [];
  if (server.state === 'syncing' || server.state === 'starting') {
    shown.push(banner('warn', 'This server is catching up: instances are shown once it knows all of them.'));
  }
  if (server.state === 'draining') shown.push(banner('warn', 'This server is leaving.'));
  if (preservation.protecting) {
    shown.push(banner('bad', `Self-preservation. ${outlook(preservation)}`));
  } else if (preservation.mode === 'off') {
    shown.push(banner('warn', 'Self-preservation is off: a network fault can empty the registry.'));
  } else if (preservation.mode === 'freeze' && preservation.set_until_ms !== null) {
    shown.push(banner('warn', outlook(preservation)));
  }
  return [...shown, ...problems.map((problem) => banner('warn', problem))];
}

function replicas(peers, count, now) {
  if (!peers.length) return element('p', { class: 'hint' }, 'None: this server is alone.');
  const head = ['Address', 'Node', 'State', 'Backlog', 'Clock', 'Heard', 'Last error'];
  const row = (peer) => [
    link(peer.address.includes('://') ? peer.address : `http://${peer.address}/`),
    peer.node,
    pill(peer.connected ? (peer.ready ? 'UP' : 'STARTING') : 'DOWN', peerState(peer)),
    number(peer.backlog),
    peer.clock_skew_ms === null ? '' : `${peer.clock_skew_ms > 0 ? '+' : ''}${peer.clock_skew_ms} ms`,
    peer.last_success_ms ? `${span(now - peer.last_success_ms)} ago` : 'never',
    peer.last_error && !peer.connected ? `${peer.last_error} (${span(now - peer.last_error_ms)} ago)` : '',
  ];
  const cells = (texts, tag, more) => element('tr', {}, ...texts.map((text) => element(tag, more, text)));
  const more = count > peers.length ? element('p', { class: 'hint' }, `and ${count - peers.length} more`) : '';
  return element('div', { class: 'scrolls', tabindex: 0, role: 'region', 'aria-label': 'Replicas' },
    element('table', {},
      element('thead', {}, cells(head, 'th', { scope: 'col' })),
      element('tbody', {}, ...peers.map((peer) => cells(row(peer), 'td', {})))),
    more);
}

function peerState(peer) {
  if (!peer.connected) return 'unreachable';
  if (peer.draining) return 'leaving';
  if (!peer.ready) return 'catching up';
  return peer.protecting ? 'protecting' : 'available';
}
