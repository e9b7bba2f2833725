// Registers an instance, keeps its lease, and cancels it on Ctrl-C or SIGTERM.
//
// Usage: node serve.js TARGET APP SERVICE-PORT, where the target is HOST:PORT or ipv4:IP:PORT,IP:PORT
const crypto = require('crypto');
const path = require('path');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const PROTOS = path.join(__dirname, '../../proto');
const TIMEOUT = 5000;
const { NOT_FOUND, FAILED_PRECONDITION, INVALID_ARGUMENT, ABORTED } = grpc.status;
// Answers that ask the owner to register again.
const REGISTER_AGAIN = [NOT_FOUND, FAILED_PRECONDITION];
// Answers that no retry mends.
const FAULTS = [INVALID_ARGUMENT, ABORTED];

const definition = protoLoader.loadSync('heureka/registry/v1/registry_service.proto', {
  includeDirs: [PROTOS], keepCase: true, longs: String, enums: String, defaults: true, oneofs: true,
});
const { RegistryService } = grpc.loadPackageDefinition(definition).heureka.registry.v1;

const millis = ({ seconds, nanos }) => Number(seconds) * 1000 + nanos / 1e6;

// One instance, and the order of this process's writes of it.
class Owner {
  incarnation = crypto.randomBytes(16);
  // Starts from the clock, so that it is above that of an earlier life.
  version = BigInt(Date.now());
  first = true;

  constructor(client, instance) {
    this.client = client;
    this.instance = instance;
  }

  call(method, request) {
    const { incarnation, first } = this;
    const writer = { incarnation, version: this.version.toString(), first };
    const deadline = Date.now() + TIMEOUT;
    return new Promise((done, failed) => {
      const answered = (error, response) => (error ? failed(error) : done(response));
      this.client[method]({ ...request, writer }, { deadline }, answered);
    });
  }

  // Registers; milliseconds until the first renewal.
  async register() {
    this.version += 1n;
    const { version, lease } = await this.call('Register', { instance: this.instance });
    this.first = false;
    const stored = BigInt(version.owner);
    if (stored > this.version) this.version = stored;
    console.log('registered', this.instance.key.app, this.instance.key.id);
    return millis(lease.renewal_interval);
  }

  // Renews, or registers when asked to; milliseconds until the next renewal.
  async renew() {
    try {
      return millis((await this.call('Renew', { key: this.instance.key })).next_renewal_in);
    } catch (error) {
      if (REGISTER_AGAIN.includes(error.code)) return this.register();
      throw error;
    }
  }

  async cancel() {
    this.version += 1n;
    const { existed } = await this.call('Cancel', { key: this.instance.key });
    console.log('cancelled, was there:', existed);
  }
}

async function main(target, app, port) {
  const client = new RegistryService(target, grpc.credentials.createInsecure());
  const owner = new Owner(client, {
    key: { app, id: `localhost:${app.toLowerCase()}:${port}` },
    host_name: 'localhost',
    ip_address: '127.0.0.1',
    port: { number: port, enabled: true },
    vip_address: app.toLowerCase(),
  });
  let leaving = false;
  let wake = () => {};
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { leaving = true; wake(); });
  let step = () => owner.register();
  while (!leaving) {
    let wait;
    try {
      wait = await step();
      step = () => owner.renew();
    } catch (error) {
      console.error(grpc.status[error.code], error.details);
      if (FAULTS.includes(error.code)) process.exit(1);
      wait = 1000;
    }
    if (leaving) break;
    await new Promise((done) => {
      const timer = setTimeout(done, wait);
      wake = () => { clearTimeout(timer); done(); };
    });
  }
  await owner.cancel();
  client.close();
}

const [target, app, port] = process.argv.slice(2);
main(target, app, Number(port)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
