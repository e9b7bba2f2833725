package client;

import com.netflix.appinfo.ApplicationInfoManager;
import com.netflix.appinfo.providers.EurekaConfigBasedInstanceInfoProvider;
import com.netflix.discovery.DiscoveryClient;
import com.netflix.discovery.shared.resolver.DefaultEndpoint;
import com.netflix.discovery.shared.transport.jersey3.Jersey3TransportClientFactories;
import java.util.List;

/** Netflix's client 2.0 over Jersey 3: `Main URL APPLICATION full|compact`. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) throws Exception {
        var settings = new Settings.Client(arguments[0], arguments[2]);
        var instance = new Settings.Instance(arguments[1]);
        var info = new EurekaConfigBasedInstanceInfoProvider(instance).get();
        var self = new ApplicationInfoManager(instance, info);
        var transports = Jersey3TransportClientFactories.getInstance();
        var direct = transports.newTransportClientFactory(settings, List.of(), info);
        var client = new DiscoveryClient(self, settings, transports);
        new Talk(client, self, direct.newClient(new DefaultEndpoint(arguments[0]))).run();
    }
}
