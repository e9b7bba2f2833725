// What the server has told, by key, and the proof that it is all of it.

const FORGET = 600000;
const M = (1n << 64n) - 1n;
const encoder = new TextEncoder();

// Versions are five texts: a script's own numbers do not hold them.
function newer(one, other) {
  const at = one.findIndex((part, index) => part !== other[index]);
  return at >= 0 && BigInt(one[at]) > BigInt(other[at]);
}

// FNV-1a over key and version in two halves of 32 bits, mixed at the end.
export function hashed(namespace, app, id, version) {
  const text = encoder.encode(`${namespace}\0${app}\0${id}\0`);
  const bytes = new Uint8Array(text.length + 40);
  bytes.set(text);
  const numbers = new DataView(bytes.buffer, text.length);
  version.forEach((part, index) => numbers.setBigUint64(index * 8, BigInt(part), true));
  let [high, low] = [0xcbf29ce4, 0x84222325];
  for (const byte of bytes) {
    low = (low ^ byte) >>> 0;
    const product = low * 0x1b3;
    high = (high * 0x1b3 + Math.floor(product / 4294967296) + low * 256) >>> 0;
    low = product >>> 0;
  }
  let x = (BigInt(high) << 32n) | BigInt(low);
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & M;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & M;
  return x ^ (x >> 31n);
}

function entry({ namespace, app, id, version, instance, zone }) {
  const { metadata = {}, dataCenterInfo = {} } = instance;
  const place = zone ?? dataCenterInfo.metadata?.['availability-zone'] ?? metadata.zone ?? '';
  const ports = [instance.port, instance.securePort].filter((port) => String(port?.['@enabled']) === 'true');
  const host = instance.hostName || instance.ipAddr || '';
  const address = ports.length ? `${host}:${ports[0].$}` : host;
  return {
    app, id, version, instance, address,
    zone: place,
    status: instance.status,
    hash: hashed(namespace, app, id, version),
    words: '',
    touched: 0,
  };
}

// Everything that can be searched for, in small letters.
export function words(one) {
  if (!one.words) {
    const { ipAddr, hostName, vipAddress, secureVipAddress, appGroupName, metadata = {} } = one.instance;
    const labels = Object.entries(metadata).map(([name, value]) => `${name}=${value}`);
    const all = [one.app, one.id, one.status, one.zone, one.address, ipAddr, hostName, vipAddress, secureVipAddress];
    one.words = [...all, appGroupName, ...labels].filter(Boolean).join('\n').toLowerCase();
  }
  return one.words;
}

export class View {
  constructor(changed) {
    this.changed = changed;
    this.held = new Map();
    this.apps = new Map();
    this.sum = 0n;
    // A whole set on its way; what is shown stays until it is complete.
    this.building = null;
    this.mismatches = 0;
    // The next whole set is taken as it is told.
    this.doubted = false;
    // Removals of the last minutes: a server that lags would bring back what is gone.
    this.gone = new Map();
    this.proof = 'none';
    this.revision = 0;
  }

  begin({ mode }) {
    this.building = mode === 'FULL' ? new Map() : null;
  }

  change(told) {
    const { type, namespace, app, id, version, instance } = told;
    const key = JSON.stringify([namespace, app, id]);
    const known = (this.building ?? this.held).get(key) ?? (this.doubted ? undefined : this.gone.get(key));
    if (known && !newer(version, known.version)) return;
    if (instance) {
      const one = entry(told);
      if (this.building) return void this.building.set(key, one);
      one.touched = performance.now();
      this.put(key, one);
    } else if (type === 'REMOVED') {
      if (this.building) this.building.delete(key);
      else this.drop(key);
      this.gone.set(key, { version, at: performance.now() });
    }
    this.proof = 'open';
    this.changed(app, id);
  }

  end(mark) {
    if (this.building) this.swap();
    this.bookmark(mark);
  }

  // Whether what is held is what the server holds, as far as it says so.
  bookmark({ revision, digest }) {
    this.revision = revision;
    for (const [key, { at }] of this.gone) if (performance.now() - at > FORGET) this.gone.delete(key);
    // Left out while more is on its way, and of no use when it is of a kind that is not known.
    if (digest && digest.algorithm === 1) {
      const equal = this.sum === BigInt(`0x${digest.hash}`) && this.held.size === digest.count;
      this.mismatches = equal ? 0 : this.mismatches + 1;
      this.proof = equal ? 'proved' : 'differs';
    }
    this.changed();
  }

  // Whether another whole set has to be asked for.
  takeDoubt() {
    if (this.mismatches < 2) return false;
    this.mismatches = 0;
    this.doubted = true;
    return true;
  }

  // What a live change told meanwhile stays when it is newer, unless the view is in doubt.
  swap() {
    const [before, next] = [this.held, this.building];
    this.building = null;
    this.held = new Map();
    this.apps = new Map();
    this.sum = 0n;
    for (const [key, now] of next) {
      const was = before.get(key);
      this.put(key, was && newer(was.version, now.version) && !this.doubted ? was : now);
    }
    this.doubted = false;
  }

  put(key, one) {
    this.drop(key);
    this.held.set(key, one);
    this.sum = (this.sum + one.hash) & M;
    const app = this.apps.get(one.app) ?? { name: one.app, members: new Map(), sorted: null };
    this.apps.set(one.app, app);
    app.members.set(one.id, one);
    app.sorted = null;
  }

  drop(key) {
    const one = this.held.get(key);
    if (!one) return;
    this.held.delete(key);
    this.sum = (this.sum - one.hash) & M;
    const app = this.apps.get(one.app);
    app.members.delete(one.id);
    app.sorted = null;
    if (app.members.size === 0) this.apps.delete(one.app);
  }

  get(app, id) {
    return this.apps.get(app)?.members.get(id);
  }

  sortedApps() {
    const apps = [...this.apps.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
    for (const app of apps) {
      app.sorted ??= [...app.members.values()].sort((one, other) => (one.id < other.id ? -1 : 1));
    }
    return apps;
  }
}
