// A watcher as docs/watch-contract.md asks for, over stubs made from the protos: keeps a set across reconnects and
// restarts, checks it by digest, writes when told to, and records everything for heureka-history.
//
// Usage: node watch.js PROTO-FOLDER HOST:PORT RECORDING. Speaks JSON lines; see Program in harness.py.
const fs = require('fs');
const readline = require('readline');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const [protos, target, recording] = process.argv.slice(2);
const M = (1n << 64n) - 1n;
// Tokens and digests come a second apart at most, so that no suite waits long for one.
const INTERVAL = { seconds: 1, nanos: 0 };
// Reconnects wait at most this long here; the contract's 30 s would only make the suites slow.
const LONGEST_WAIT = 1000;
const PATIENCE = 10000;

const file = fs.openSync(recording, 'w');
const say = (words) => process.stdout.write(JSON.stringify(words) + '\n');
const record = (step) => fs.writeSync(file, JSON.stringify(step) + '\n');
const text = (bytes) => Buffer.from(bytes).toString('base64');
const sleep = (millis) => new Promise((done) => setTimeout(done, millis));

// Every answer comes with the bytes in which it arrived.
function stubs() {
  const options = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true, includeDirs: [protos] };
  const files = ['discovery_service', 'registry_service'].map((name) => `heureka/registry/v1/${name}.proto`);
  const definition = protoLoader.loadSync(files, options);
  for (const service of ['DiscoveryService', 'RegistryService']) {
    for (const method of Object.values(definition[`heureka.registry.v1.${service}`])) {
      const read = method.responseDeserialize;
      method.responseDeserialize = (bytes) => ({ bytes, message: read(bytes) });
    }
  }
  const transport = { 'grpc.initial_reconnect_backoff_ms': 50, 'grpc.max_reconnect_backoff_ms': 200 };
  const { DiscoveryService, RegistryService } = grpc.loadPackageDefinition(definition).heureka.registry.v1;
  return [DiscoveryService, RegistryService].map(
    (Service) => new Service(target, grpc.credentials.createInsecure(), transport),
  );
}

const [discovery, registry] = stubs();
const serialised = (service, method, message) => text(service[method].requestSerialize(message));

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
  const bytes = Buffer.concat([Buffer.from(`${namespace}\0${app}\0${id}\0`), numbers]);
  let x = 0xcbf29ce484222325n;
  for (const byte of bytes) x = ((x ^ BigInt(byte)) * 0x100000001b3n) & M;
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & M;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & M;
  return x ^ (x >> 31n);
}

class Watcher {
  held = new Map();
  building = null;
  token = Buffer.alloc(0);
  equal = 0;
  unequal = 0;
  inARow = 0;
  boot = '0';
  reached = ['0', 0n];
  modes = [];
  wait = 100;
  call = null;
  over = false;

  async run() {
    while (!this.over) {
      const pause = await this.stream();
      if (!this.over) await sleep(Math.random() * Math.min(pause, LONGEST_WAIT));
    }
  }

  // One stream; the longest wait before the next.
  stream() {
    const spec = {
      resume_token: this.token, required_features: ['resume', 'digest'], bookmark_interval: INTERVAL,
    };
    // The recording wants the spec alone: the only field of a request that has nothing else.
    const request = discovery.Watch.requestSerialize({ spec });
    record({ open: { spec: text(inner(request)), server: target } });
    return new Promise((done) => {
      let pause = null;
      let ended = false;
      const call = discovery.Watch({ spec, client_name: 'watch.js' });
      this.call = call;
      const end = (code) => {
        if (ended) return;
        ended = true;
        record({ closed: { code } });
        if (code === 'INVALID_ARGUMENT') this.token = Buffer.alloc(0);
        if (pause === null) {
          pause = this.wait;
          this.wait = Math.min(this.wait * 2, 30000);
        }
        done(pause);
      };
      call.on('data', ({ bytes, message }) => {
        if (ended) return;
        record({ message: text(bytes) });
        pause = this.take(message.event);
        if (pause !== null) {
          end('CANCELLED');
          call.cancel();
        }
      });
      call.on('error', (error) => end(grpc.status[error.code]));
      call.on('end', () => {});
      call.on('status', (status) => end(grpc.status[status.code]));
    });
  }

  // Takes an event in; how long to wait when it asks for another stream.
  take(event) {
    const content = event[event.event];
    switch (event.event) {
      case 'snapshot_begin':
        this.modes.push(content.mode.replace('SNAPSHOT_MODE_', ''));
        this.boot = content.header.boot;
        this.building = content.mode === 'SNAPSHOT_MODE_FULL' ? new Map() : null;
        return null;
      case 'changes':
        content.changes.forEach((change) => this.apply(change));
        if (!this.building) this.show();
        return null;
      case 'snapshot_end':
        if (this.building) this.swap();
        this.show();
        say({ settled: this.held.size, mode: this.modes.at(-1) });
        return this.mark(content);
      case 'bookmark':
        return this.mark(content);
      case 'go_away': {
        if (content.resume_token.length) this.token = content.resume_token;
        say({ away: true });
        const { seconds, nanos } = content.reconnect_jitter;
        return Number(seconds) * 1000 + nanos / 1e6;
      }
      default:
        return null;
    }
  }

  apply(change) {
    const held = this.building ?? this.held;
    const key = `${change.key.app}/${change.key.id}`;
    const known = held.get(key);
    if (known && !newer(change.version, known.version)) return;
    if (change.type === 'CHANGE_TYPE_REMOVED') {
      held.delete(key);
      say({ removed: key, reason: change.removal_reason.replace('REMOVAL_REASON_', '') });
    } else {
      held.set(key, change.instance);
    }
  }

  swap() {
    for (const [key, instance] of this.building) {
      const known = this.held.get(key);
      if (known && newer(known.version, instance.version)) this.building.set(key, known);
    }
    this.held = this.building;
    this.building = null;
  }

  mark({ resume_token, revision, digest }) {
    this.token = resume_token;
    this.wait = 100;
    if (digest) this.compare(digest);
    this.reached = [this.boot, BigInt(revision)];
    if (this.inARow < 2) return null;
    this.inARow = 0;
    this.token = Buffer.alloc(0);
    return 0;
  }

  compare(digest) {
    let own = 0n;
    for (const { key, version } of this.held.values()) own = (own + instanceHash(key, version)) & M;
    record({ held: { count: this.held.size, hash: own.toString(16).padStart(16, '0') } });
    if (own === BigInt(digest.hash) && String(this.held.size) === digest.instance_count) {
      this.equal += 1;
      this.inARow = 0;
    } else {
      this.unequal += 1;
      this.inARow += 1;
      say({ unequal: this.held.size });
    }
  }

  show() {
    const shown = ({ status, metadata, version }) => ({
      status: status.replace('INSTANCE_STATUS_', ''), metadata, version: parts(version).join('.'),
    });
    say({ view: Object.fromEntries([...this.held].map(([key, instance]) => [key, shown(instance)])) });
  }
}

// Bytes of the message in the only field, whose number is below 16: what follows its tag and length.
function inner(bytes) {
  let at = 1;
  while (bytes[at] & 0x80) at += 1;
  return bytes.subarray(at + 1);
}

function call(service, method, request) {
  const deadline = Date.now() + PATIENCE;
  return new Promise((done, failed) => {
    service[method](request, { deadline }, (error, answer) => (error ? failed(error) : done(answer)));
  });
}

// A write, recorded as it went over the wire.
async function write(method, request) {
  const { bytes, message } = await call(registry, method, request);
  record({ wrote: { call: method, request: serialised(registry, method, request), response: text(bytes) } });
  return message;
}

async function until(holds, what) {
  const deadline = Date.now() + PATIENCE;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`not ${what}`);
    await sleep(10);
  }
}

const key = ({ app, id }) => ({ app, id });
const status = (name) => `INSTANCE_STATUS_${name}`;
const watcher = new Watcher();

const commands = {
  async register(words) {
    const instance = {
      key: key(words),
      ip_address: '127.0.0.1',
      host_name: words.id,
      port: { number: words.port ?? 8080, enabled: true },
      vip_address: words.app.toLowerCase(),
      // Nobody renews it, and no suite waits for its end.
      lease: { duration: { seconds: 3600 } },
      metadata: words.metadata ?? {},
      status: status(words.status ?? 'UP'),
    };
    return (await write('Register', { instance })).created;
  },
  cancel: async (words) => (await write('Cancel', { key: key(words) })).existed,
  metadata: async (words) => void (await write('UpdateMetadata', { key: key(words), set: words.set })),
  override: async (words) =>
    void (await write('SetStatusOverride', { key: key(words), status: status(words.status) })),
  clear: async (words) => void (await write('ClearStatusOverride', { key: key(words) })),
  // When the lease was last renewed, in milliseconds.
  async renewed(words) {
    const { message } = await call(discovery, 'GetInstance', { key: key(words) });
    const { seconds, nanos } = message.instance.lease.last_renewal_time;
    return Number(seconds) * 1000 + Math.floor(nanos / 1e6);
  },
  // Drops the stream, as a network does; the mode in which the next one started.
  async reconnect() {
    const before = watcher.modes.length;
    watcher.call.cancel();
    await until(() => watcher.modes.length > before, 'begun again');
    return watcher.modes.at(-1);
  },
  // Lists everything while nothing changes and waits until a mark covers it.
  async rest() {
    const request = { page_size: 3, page_token: '' };
    let header;
    do {
      const { bytes, message } = await call(discovery, 'ListInstances', request);
      record({ rested: { request: serialised(discovery, 'ListInstances', request), response: text(bytes) } });
      request.page_token = message.next_page_token;
      header = message.header;
    } while (request.page_token);
    const covered = () => watcher.reached[0] === header.boot && watcher.reached[1] >= BigInt(header.revision);
    await until(covered, `a mark at revision ${header.revision}`);
  },
  digests: async () => ({ equal: watcher.equal, unequal: watcher.unequal }),
  async stop() {
    watcher.over = true;
    watcher.call.cancel();
    await running;
  },
};

const running = watcher.run();
const lines = readline.createInterface({ input: process.stdin });
let turn = Promise.resolve();
lines.on('line', (line) => {
  const words = JSON.parse(line);
  turn = turn.then(async () => {
    try {
      say({ answer: words.ask, result: await commands[words.do](words) });
    } catch (error) {
      say({ answer: words.ask, error: String(error.message) });
    }
  });
});
lines.on('close', () => turn.then(() => process.exit(0)));
