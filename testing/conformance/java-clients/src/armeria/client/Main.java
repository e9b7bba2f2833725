package client;

import com.linecorp.armeria.client.Endpoint;
import com.linecorp.armeria.client.eureka.EurekaEndpointGroup;
import com.linecorp.armeria.common.HttpResponse;
import com.linecorp.armeria.common.auth.AuthToken;
import com.linecorp.armeria.common.eureka.InstanceInfo;
import com.linecorp.armeria.server.Server;
import com.linecorp.armeria.server.eureka.EurekaUpdatingListener;
import java.net.URI;
import java.util.Map;
import java.util.TreeMap;

/** Armeria's server that registers itself, and its group of endpoints that looks for all: `Main URL APPLICATION`. */
public final class Main {
    private static final long BEAT = 500;
    private static final long LEASE = 5000;
    private static final int PORT = 9601;

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        URI given = URI.create(arguments[0]);
        // Its clients take a name and a password as a token and not in a url.
        URI url = new URI(given.getScheme(), null, given.getHost(), given.getPort(), "/eureka", null, null);
        var listener = EurekaUpdatingListener.builder(url).appName(arguments[1]).instanceId("host:" + arguments[1] + ":80")
            .hostname("127.0.0.1").ipAddr("127.0.0.1").port(PORT).vipAddress("armeria-vip")
            .metadata(Map.of("key", "own", "a_b", "c&d <e>")).renewalIntervalMillis(BEAT).leaseDurationMillis(LEASE);
        var group = EurekaEndpointGroup.builder(url).registryFetchIntervalMillis(BEAT);
        if (given.getUserInfo() != null) {
            String[] parts = given.getUserInfo().split(":", 2);
            listener.auth(AuthToken.ofBasic(parts[0], parts[1]));
            group.auth(AuthToken.ofBasic(parts[0], parts[1]));
        }
        var server = Server.builder().http(0).service("/", (context, request) -> HttpResponse.of(200))
            .serverListener(listener.build()).build();
        server.start().join();
        var endpoints = group.build();
        Lines.say("\"started\": true");
        Lines.run((what, line) -> done(what, server, endpoints));
    }

    private static String done(String what, Server server, EurekaEndpointGroup endpoints) {
        switch (what) {
            case "held":
                return held(endpoints);
            case "stop":
                endpoints.close();
                server.stop().join();
                return "true";
            default:
                throw new IllegalArgumentException(what);
        }
    }

    /** Everything that it would call, by application and id. */
    private static String held(EurekaEndpointGroup endpoints) {
        var found = new TreeMap<String, String>();
        for (Endpoint endpoint : endpoints.endpoints()) {
            InstanceInfo one = InstanceInfo.instanceInfo(endpoint);
            String told = one.getStatus() + " " + one.getMetadata().getOrDefault("key", "");
            found.put(one.getAppName() + "/" + one.getInstanceId(), told + " " + endpoint.authority());
        }
        return Lines.object(found);
    }
}
