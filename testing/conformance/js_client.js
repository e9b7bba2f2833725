// An ordinary eureka-js-client program. Usage: node js_client.js PACKAGE HOST PORT OPTIONS-AS-JSON; its option `eureka`
// goes to the client and may name several servers. Speaks JSON lines; see Program in harness.py.
const readline = require('readline');

const [name, host, port, options] = process.argv.slice(2);
const { Eureka } = require(name);
const { instance, delta = false, register = true, eureka = {} } = JSON.parse(options);

const say = (words) => process.stdout.write(JSON.stringify(words) + '\n');
const complaints = [];
const complain = (...words) => complaints.push(words.map(String).join(' '));
const logger = { level() {}, trace() {}, debug() {}, info() {}, warn: complain, error: complain };
const counts = { registered: 0, heartbeat: 0, registryUpdated: 0, POST: 0, PUT: 0, GET: 0, DELETE: 0 };

const client = new Eureka({
  logger,
  instance,
  shouldUseDelta: delta,
  eureka: {
    host, port: Number(port), servicePath: '/eureka/apps/',
    heartbeatInterval: 600, registryFetchInterval: 600, registerWithEureka: register, ...eureka,
  },
  requestMiddleware(request, done) {
    counts[request.method || 'GET'] += 1;
    done(request);
  },
});
for (const event of ['registered', 'registryUpdated', 'heartbeat', 'started', 'deregistered']) {
  client.on(event, () => {
    if (event in counts) counts[event] += 1;
    say({ event });
  });
}

const shown = ({ instanceId, hostName, status, metadata }) => ({ id: instanceId ?? hostName, status, metadata });
const commands = {
  // What the client holds, what it did so far, and what it complained about.
  report: (words, done) => {
    const apps = Object.entries(client.cache.app).map(([app, held]) => [app, held.map(shown)]);
    done(null, { apps: Object.fromEntries(apps.filter(([, held]) => held.length)), counts, complaints });
  },
  instances: ({ app }, done) => done(null, client.getInstancesByAppId(app).map(shown)),
  stop: (words, done) => client.stop((error) => done(error)),
};

client.start((error) => {
  if (error) {
    say({ failed: String(error.message ?? error) });
    process.exit(1);
  }
});
const lines = readline.createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const words = JSON.parse(line);
  commands[words.do](words, (error, result) => {
    say(error ? { answer: words.ask, error: String(error) } : { answer: words.ask, result });
  });
});
lines.on('close', () => process.exit(0));
