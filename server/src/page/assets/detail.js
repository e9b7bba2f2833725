// One instance: what its owner said, what an operator said, how its lease is, what happened to it.

import { byId, clock, element, fetched, gathered, link, moment, pill, span, terms } from './dom.js';
import { reason } from './recent.js';

const EVERY = 5000;

export class Detail {
  constructor(namespace, view, server, closed) {
    Object.assign(this, { namespace, view, server, closed, at: null, told: null, timer: 0 });
    this.box = byId('detail');
    this.refresh = gathered(() => 200, () => this.read());
    this.box.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      this.close();
    });
    setInterval(() => this.tick(), 1000);
  }

  is(app, id) {
    return this.at !== null && this.at.app === app && this.at.id === id;
  }

  open(app, id) {
    this.at = { app, id };
    this.told = null;
    this.last = this.view.get(app, id);
    this.box.hidden = false;
    document.body.classList.add('opened');
    this.build();
    this.title.focus();
    this.read();
  }

  close() {
    if (!this.at) return;
    this.at = null;
    clearTimeout(this.timer);
    this.box.hidden = true;
    this.box.replaceChildren();
    document.body.classList.remove('opened');
    this.closed();
  }

  async read() {
    if (!this.at) return;
    clearTimeout(this.timer);
    const asked = this.at;
    const query = new URLSearchParams({ app: asked.app, id: asked.id });
    if (this.namespace) query.set('namespace', this.namespace);
    const told = await fetched(`v1/instance?${query}`);
    if (this.at !== asked) return;
    if (told) this.told = told;
    this.draw();
    this.timer = setTimeout(() => this.read(), EVERY);
  }

  // The frame stays while what is in it changes, so that the focus does.
  build() {
    const { app, id } = this.at;
    const close = element('button', { type: 'button', class: 'close', 'aria-label': 'Close' }, '×');
    close.addEventListener('click', () => this.close());
    this.title = element('h2', { tabindex: -1 }, id);
    this.body = element('div', { class: 'body' });
    this.box.replaceChildren(element('div', { class: 'head' }, element('div', {}, element('p', {}, app), this.title), close), this.body);
    this.draw();
  }

  draw() {
    if (!this.at) return;
    const held = this.view.get(this.at.app, this.at.id);
    this.last = held ?? this.last;
    const [told, instance] = [this.told?.instance, this.last?.instance];
    const parts = [this.state(held, told)];
    if (held && told) parts.push(this.lease(told.lease));
    if (instance) parts.push(...this.said(instance, told));
    if (this.told) parts.push(this.events(this.told.events));
    // Who stands on a link stays there.
    const place = [...this.body.querySelectorAll('a')].indexOf(document.activeElement);
    this.body.replaceChildren(...parts);
    if (place >= 0) this.body.querySelectorAll('a')[place]?.focus();
  }

  state(held, told) {
    const rows = [];
    if (!held) rows.push(['Status', element('span', {}, pill('DOWN', 'GONE'), ' it is not registered any more')]);
    else rows.push(['Status', pill(held.status)]);
    const over = told?.override ?? null;
    if (held && over) {
      const until = over.until_ms ? ['until ', moment(over.until_ms)] : ['until it is taken back'];
      rows.push(['Override', element('span', {}, pill(over.status), ' by an operator, ', ...until)]);
      rows.push(['Owner’s own status', pill(told.own_status)]);
    } else if (held && told) {
      rows.push(['Override', 'none']);
    }
    if (held && told?.drain?.deadline_ms) rows.push(['Leaves at', moment(told.drain.deadline_ms)]);
    return element('dl', {}, ...terms(rows));
  }

  lease(lease) {
    this.bar = element('progress', { max: lease.duration_ms, 'aria-label': 'Age of the lease' });
    this.age = element('span', {});
    const rows = terms([
      ['Lease', element('span', { class: 'lease' }, this.bar, this.age)],
      ['Renews every', `${span(lease.renewal_interval_ms)}, leaves after ${span(lease.duration_ms)} of silence`],
      ['Last renewal', moment(lease.renewed_ms)],
      ['Registered', moment(lease.registered_ms)],
      ['Last change', moment(lease.updated_ms)],
      ['First UP', lease.service_up_ms && moment(lease.service_up_ms)],
    ]);
    this.tick();
    return element('dl', {}, ...rows);
  }

  tick() {
    const lease = this.told?.instance?.lease;
    if (!this.at || !lease || !this.age) return;
    const age = Math.max(0, this.server.now() - lease.renewed_ms);
    this.bar.value = Math.min(age, lease.duration_ms);
    const left = lease.duration_ms - age;
    this.age.textContent = left >= 0 ? `${span(age)} old, ${span(left)} left` : `${span(age)} old, ran out ${span(-left)} ago`;
  }

  said(instance, told) {
    const port = (value) => (String(value?.['@enabled']) === 'true' ? value.$ : null);
    const locality = told ? Object.values(told.locality).filter(Boolean).join(' / ') : '';
    const facts = terms([
      ['Host', instance.hostName],
      ['Address', instance.ipAddr],
      ['Port', port(instance.port)],
      ['Secure port', port(instance.securePort)],
      ...(told?.ports ?? []).map(({ name, number, protocol }) => [`Port ${name}`, [number, protocol].filter(Boolean).join('/')]),
      ['Locality', locality],
      ['Weight', told?.weight],
      ...Object.entries(told?.capacity ?? {}).map(([name, total]) => [`Capacity ${name}`, total]),
      ['Virtual address', instance.vipAddress],
      ['Secure virtual address', instance.secureVipAddress],
      ['Group', instance.appGroupName],
      ['Data center', instance.dataCenterInfo?.name],
      ['Home page', instance.homePageUrl && link(instance.homePageUrl)],
      ['Status page', instance.statusPageUrl && link(instance.statusPageUrl)],
      ['Health check', instance.healthCheckUrl && link(instance.healthCheckUrl)],
    ]);
    const metadata = (labels) => Object.entries(labels ?? {}).filter(([name]) => name !== '@class');
    const lists = [['Metadata', metadata(instance.metadata)], ['Data center', metadata(instance.dataCenterInfo?.metadata)]];
    const shown = lists.filter(([name, labels]) => labels.length || name === 'Metadata').map(([name, labels]) =>
      element('section', {}, element('h3', {}, name), labels.length
        ? element('dl', { class: 'labels' }, ...terms(labels.map(([label, value]) => [label, value === '' ? '(empty)' : value])))
        : element('p', { class: 'hint' }, 'none')));
    return [element('section', {}, element('h3', {}, 'What its owner says'), element('dl', {}, ...facts)), ...shown];
  }

  events(events) {
    const row = (event) => element('li', {},
      element('span', { class: 'time', title: moment(event.at_ms).textContent }, clock(event.at_ms)),
      element('span', {}, reason(event), event.kind === 'removal' ? '' : ', since then ', event.kind === 'removal' ? '' : pill(event.status)));
    const none = element('p', { class: 'hint' }, 'Nothing that is still remembered.');
    return element('section', {}, element('h3', {}, 'Last events'), events.length ? element('ol', { class: 'events' }, ...events.map(row)) : none);
  }
}
