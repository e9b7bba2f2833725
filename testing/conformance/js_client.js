// An ordinary eureka-js-client program: registers, renews until told to stop, cancels.
const { Eureka } = require('eureka-js-client');

const [host, port, app, own] = process.argv.slice(2);
const client = new Eureka({
  instance: {
    app,
    instanceId: `js:${app}:${own}`,
    hostName: 'localhost',
    ipAddr: '127.0.0.1',
    port: { $: Number(own), '@enabled': true },
    vipAddress: app,
    leaseInfo: { renewalIntervalInSecs: 1, durationInSecs: 3 },
    dataCenterInfo: { '@class': 'com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo', name: 'MyOwn' },
  },
  eureka: { host, port: Number(port), servicePath: '/eureka/apps/', heartbeatInterval: 1000, registryFetchInterval: 1000 },
});
client.logger.level('error');
client.start((error) => {
  if (error) throw error;
  console.log('started');
});
process.stdin.once('data', () => client.stop(() => {
  console.log('stopped');
  process.exit(0);
}));
