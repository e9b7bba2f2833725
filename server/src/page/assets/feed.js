// The stream of changes. A browser comes back by itself where a connection breaks; it gives up on any other answer than
// a feed, such as that of a proxy whose server is away: then, and when a feed is silent, another one is opened.

import { beside } from './dom.js';

// Longest time between two bookmarks; after three of them a feed is dead.
const INTERVAL = 5;
// A page that nobody looks at takes no connection.
const HIDDEN = 60000;

export class Feed {
  constructor(namespace, view, told) {
    const query = new URLSearchParams({ client: 'status page', interval: String(INTERVAL) });
    if (namespace) query.set('namespace', namespace);
    this.address = `v1/watch?${query}`;
    Object.assign(this, { view, told, source: null, wait: 100, timer: 0, hiding: 0, resting: false });
    document.addEventListener('visibilitychange', () => this.seen());
  }

  // A server that is starting or leaving has no feed to give and is not asked for one.
  permit(ready) {
    this.permitted = ready;
    if (ready && !this.source && !this.timer && !this.resting) this.open();
  }

  open() {
    this.timer = 0;
    if (!this.permitted) return;
    const source = new EventSource(beside(this.address));
    this.source = source;
    for (const name of ['begin', 'change', 'end', 'bookmark']) {
      source.addEventListener(name, (event) => {
        this.listen();
        this.view[name](JSON.parse(event.data));
        if (name === 'end' || name === 'bookmark') this.marked();
      });
    }
    source.onerror = () => {
      if (source !== this.source) return;
      this.told('lost');
      if (source.readyState === EventSource.CLOSED) this.later();
    };
    this.listen();
  }

  marked() {
    this.wait = 100;
    this.told('live');
    if (this.view.takeDoubt()) this.later();
  }

  listen() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.later(), 3000 * INTERVAL);
  }

  later() {
    this.close();
    this.told('lost');
    this.timer = setTimeout(() => this.open(), Math.random() * this.wait);
    this.wait = Math.min(this.wait * 2, 10000);
  }

  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.timer);
    this.timer = 0;
  }

  seen() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.close();
        this.told('rests');
        this.resting = true;
      }, HIDDEN);
    } else if (this.resting) {
      this.resting = false;
      this.open();
    }
  }
}
