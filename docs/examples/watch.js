// Follows the registry as docs/watch-contract.md asks for, and prints every change. Ctrl-C ends it.
//
// Usage: node watch.js TARGET [APP...], where the target is HOST:PORT or ipv4:IP:PORT,IP:PORT
const path = require('path');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const PROTOS = path.join(__dirname, '../../proto');
const M = (1n << 64n) - 1n;
// Of bookmarks, when a watch asks for nothing else; after three of them a stream is dead.
const INTERVAL = 10000;
const SILENCE = 3 * INTERVAL;

const definition = protoLoader.loadSync('heureka/registry/v1/discovery_service.proto', {
  includeDirs: [PROTOS], keepCase: true, longs: String, enums: String, defaults: true, oneofs: true,
});
const { DiscoveryService } = grpc.loadPackageDefinition(definition).heureka.registry.v1;

const parts = (version) =>
  ['owner', 'clock', 'boot', 'overlay_clock', 'overlay_boot'].map((part) => BigInt(version[part]));

function newer(one, other) {
  const [left, right] = [parts(one), parts(other)];
  const at = left.findIndex((part, index) => part !== right[index]);
  return at >= 0 && left[at] > right[at];
}

function instanceHash({ namespace, app, id }, version) {
  const numbers = Buffer.alloc(40);
  parts(version).forEach((part, index) => numbers.writeBigUInt64LE(part, index * 8));
  let x = 0xcbf29ce484222325n;
  for (const byte of Buffer.concat([Buffer.from(`${namespace}\0${app}\0${id}\0`), numbers])) {
    x = ((x ^ BigInt(byte)) * 0x100000001b3n) & M;
  }
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & M;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & M;
  return x ^ (x >> 31n);
}

// What the server has told. Outlives the streams.
class View {
  held = new Map();
  // A whole set on its way; look-ups would go on with `held` until it is complete.
  building = null;
  token = Buffer.alloc(0);
  // Whether a digest of the server agreed since the last news.
  proved = false;
  mismatches = 0;
  // The next whole set is taken as it is told.
  doubted = false;
  wait = 100;
  opened = 0;

  // Takes an event in. How long to wait at most, when it asks for another stream.
  take(event) {
    const content = event[event.event];
    switch (event.event) {
      case 'snapshot_begin':
        this.proved = false;
        this.building = content.mode === 'SNAPSHOT_MODE_FULL' ? new Map() : null;
        return null;
      case 'changes':
        content.changes.forEach((change) => this.apply(change));
        return null;
      case 'snapshot_end':
        if (this.building) this.swap();
        console.log('SYNCED', this.held.size);
        return this.mark(content);
      case 'bookmark':
        return this.mark(content);
      case 'go_away': {
        if (content.resume_token.length) this.token = content.resume_token;
        const jitter = content.reconnect_jitter ?? { seconds: 0, nanos: 0 };
        return this.nextWait(Math.min(Number(jitter.seconds) * 1000 + jitter.nanos / 1e6, 300000));
      }
      default:
        return null;
    }
  }

  apply({ type, key, version, instance }) {
    const held = this.building ?? this.held;
    const name = JSON.stringify([key.namespace, key.app, key.id]);
    const known = held.get(name);
    if (known && !newer(version, known.version)) return;
    if (instance) held.set(name, instance);
    else if (type !== 'CHANGE_TYPE_REMOVED' || !held.delete(name)) return;
    if (!this.building) this.show(known, held.get(name));
  }

  swap() {
    const old = this.held;
    this.held = this.building;
    this.building = null;
    for (const [name, now] of this.held) {
      const before = old.get(name);
      const older = before && newer(before.version, now.version);
      if (older && !this.doubted) this.held.set(name, before);
      else if (older || !before || newer(now.version, before.version)) this.show(before, now);
    }
    this.doubted = false;
    for (const [name, before] of old) if (!this.held.has(name)) this.show(before, undefined);
  }

  mark({ resume_token, digest }) {
    this.token = resume_token;
    if (digest && digest.algorithm === 1) {
      let own = 0n;
      for (const { key, version } of this.held.values()) own = (own + instanceHash(key, version)) & M;
      const equal = own === BigInt(digest.hash) && String(this.held.size) === digest.instance_count;
      this.mismatches = equal ? 0 : this.mismatches + 1;
      if (!equal || !this.proved) console.log(equal ? 'PROVED' : 'UNEQUAL', this.held.size);
      this.proved = equal;
    }
    if (this.mismatches === 0 && performance.now() - this.opened >= INTERVAL) this.wait = 100;
    if (this.mismatches < 2) return null;
    this.mismatches = 0;
    this.token = Buffer.alloc(0);
    this.doubted = true;
    return this.nextWait();
  }

  // Longest wait before the next stream; the server's own where that is longer.
  nextWait(told = 0) {
    const { wait } = this;
    this.wait = Math.min(wait * 2, 30000);
    return Math.max(wait, told);
  }

  show(before, now) {
    this.proved = false;
    const word = !now ? 'REMOVED' : before ? 'MODIFIED' : 'ADDED';
    const { key, status } = now ?? before;
    // A number is a status of a later server.
    const known = typeof status === 'string' ? status.replace('INSTANCE_STATUS_', '') : 'UNKNOWN';
    console.log(word, `${key.app}/${key.id}`, known);
  }
}

// One stream; how long to wait at most before the next.
async function stream(client, view, apps) {
  const selectors = apps.length ? [{ apps }] : [];
  const spec = { selectors, resume_token: view.token, required_features: ['digest'] };
  view.opened = performance.now();
  const call = client.Watch({ spec, client_name: 'watch.js' });
  const silence = setTimeout(() => call.cancel(), SILENCE);
  try {
    for await (const { event } of call) {
      silence.refresh();
      const wait = view.take(event);
      if (wait !== null) return wait;
    }
  } catch (error) {
    console.error(grpc.status[error.code], error.details);
    if (error.code === grpc.status.INVALID_ARGUMENT) {
      if (!view.token.length) throw error;
      view.token = Buffer.alloc(0);
    }
  } finally {
    clearTimeout(silence);
    call.cancel();
  }
  return view.nextWait();
}

async function main([target, ...apps]) {
  const client = new DiscoveryService(target, grpc.credentials.createInsecure());
  const view = new View();
  for (;;) {
    const wait = await stream(client, view, apps);
    await new Promise((done) => setTimeout(done, Math.random() * wait));
  }
}

main(process.argv.slice(2)).catch(() => process.exit(1));
